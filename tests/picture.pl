#!/usr/bin/perl
# Decodes a picture on standard input: picture.pl png|kitty|sixel|blocks prints "WIDTHxHEIGHT rrggbb rrggbb ...", row by
# row, with "-" for what is not painted. picture.pl frames PREFIX writes each frame of an animated PNG as PREFIX0.png, ...
# and prints their number, their delays in seconds and the number of repeats, after it has checked the order of all chunks.
use strict;
use warnings;

my $what = shift;
binmode STDIN;
my $in = do { local $/; <STDIN> };

sub inflate { # of a zlib stream: gzip misses its trailer
    my ($z) = @_;
    open my $out, '|-', 'gzip -dc > inflated 2> inflate.log' or die;
    binmode $out;
    print $out "\x1f\x8b\x08", "\0" x 7, substr($z, 2);
    close $out;
    open my $raw, '<:raw', 'inflated' or die;
    local $/;
    return <$raw>;
}

sub crc {
    my $c = 0xffffffff;
    for my $b (unpack 'C*', $_[0]) {
        $c ^= $b;
        $c = $c & 1 ? $c >> 1 ^ 0xedb88320 : $c >> 1 for 1 .. 8;
    }
    return $c ^ 0xffffffff;
}

sub chunks { # [type, data] of a PNG
    my ($png) = @_;
    $png =~ s/^\x89PNG\r\n\x1a\n// or die "no signature";
    my @all;
    while (length $png) {
        my ($n, $type) = unpack 'Na4', $png;
        my $data = substr $png, 8, $n;
        crc($type . $data) == unpack 'N', substr($png, 8 + $n, 4) or die "$type: wrong CRC";
        push @all, [$type, $data];
        $png = substr $png, 12 + $n;
    }
    return @all;
}

sub show { # rows of colours
    my @rows = @_;
    printf "%dx%d %s\n", scalar @{$rows[0]}, scalar @rows, join ' ', map { @$_ } @rows;
}

if ($what eq 'png') {
    my ($w, $h, $kind, $z) = (0, 0, 0, '');
    for (chunks($in)) {
        ($w, $h, $kind) = (unpack 'NNCC', $_->[1])[0, 1, 3] if $_->[0] eq 'IHDR';
        $z .= $_->[1] if $_->[0] eq 'IDAT';
    }
    my $p = $kind == 2 ? 3 : 1;
    my @raw = unpack 'C*', inflate($z);
    my @up = (0) x ($p * $w);
    my @rows;
    for (1 .. $h) {
        my $filter = shift @raw;
        my @row;
        for my $x (0 .. $p * $w - 1) {
            my ($a, $b, $c) = ($x < $p ? 0 : $row[$x - $p], $up[$x], $x < $p ? 0 : $up[$x - $p]);
            my $g = $a + $b - $c;
            my ($pa, $pb, $pc) = (abs $g - $a, abs $g - $b, abs $g - $c);
            my @guess = (0, $a, $b, int(($a + $b) / 2), $pa <= $pb && $pa <= $pc ? $a : $pb <= $pc ? $b : $c);
            push @row, (shift(@raw) + $guess[$filter]) % 256;
        }
        @up = @row;
        push @rows, [map { sprintf '%02x' x 3, $p == 3 ? @row[3 * $_ .. 3 * $_ + 2] : ($row[$_]) x 3 } 0 .. $w - 1];
    }
    show(@rows);
} elsif ($what eq 'frames') {
    my $prefix = shift;
    my @all = chunks($in);
    my ($head, $control) = @all[0, 1];
    $head->[0] eq 'IHDR' && $control->[0] eq 'acTL' && $all[-1][0] eq 'IEND' or die "wrong order";
    my ($frames, $plays) = unpack 'NN', $control->[1];
    my ($next, @delay, @data) = (0);
    for (@all[2 .. $#all - 1]) {
        my ($type, $data) = @$_;
        if ($type eq 'fcTL') {
            my ($n, $w, $h, $x, $y, $over, $under, $disposal, $blend) = unpack 'NNNNNnnCC', $data;
            $n == $next++ && pack('NN', $w, $h) eq substr($head->[1], 0, 8) && !$x && !$y && !$disposal && !$blend or die;
            push @delay, $over / $under;
            push @data, [];
        } elsif ($type eq 'fdAT' && @data > 1) {
            unpack('N', $data) == $next++ or die "number";
            push @{$data[-1]}, substr $data, 4;
        } elsif ($type eq 'IDAT' && @data == 1) {
            push @{$data[-1]}, $data;
        } else {
            die "unexpected $type";
        }
    }
    @data == $frames or die "frames";
    for my $i (0 .. $#data) {
        open my $out, '>:raw', "$prefix$i.png" or die;
        print $out "\x89PNG\r\n\x1a\n";
        print $out pack('N', length $_->[1]), @$_, pack('N', crc(join '', @$_))
            for $head, (map { ['IDAT', $_] } @{$data[$i]}), ['IEND', ''];
    }
    print "$frames frames, ", join(' ', @delay), " s, $plays repeats\n";
} elsif ($what eq 'kitty') {
    my ($w, $h, $text, $more) = (0, 0, '', 1);
    while ($in =~ s/^\x1b_G([^;]*);([A-Za-z0-9+\/=]*)\x1b\\//) {
        my %key = map { split /=/ } split /,/, $1;
        $more or die "after the end";
        ($w, $h) = @key{'s', 'v'} if $key{a};
        !$key{a} || "$key{a}$key{f}$key{o}$key{q}" eq 'T24z2' or die "keys $1";
        length $2 <= 4096 && ($key{m} ? length($2) % 4 == 0 : 1) or die "piece";
        $text .= $2;
        $more = $key{m};
    }
    $in eq "\n" && !$more or die "the rest";
    $text =~ tr{A-Za-z0-9+/=}{}cd;
    my $end = $text =~ tr/=//;
    (my $bits = join '', map { sprintf '%06b', index 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/', $_ }
        grep { $_ ne '=' } split //, $text) =~ s/0{@{[2 * $end]}}$//;
    my @raw = unpack 'C*', inflate(pack 'B*', $bits);
    @raw == 3 * $w * $h or die "expected 3 x $w x $h bytes, got ", scalar @raw;
    show(map { my $y = $_; [map { sprintf '%02x' x 3, splice @raw, 0, 3 } 1 .. $w] } 1 .. $h);
} elsif ($what eq 'sixel') {
    $in =~ s/^\x1bP0;1;0q"1;1;(\d+);(\d+)// or die "head";
    my ($w, $h) = ($1, $2);
    $in =~ s/\x1b\\\n$// or die "end";
    my (%colour, @rows, $now);
    my ($x, $y) = (0, 0);
    while (length $in) {
        if ($in =~ s/^#(\d+);2;(\d+);(\d+);(\d+)//) {
            $colour{$1} = sprintf '%02x' x 3, map { int($_ * 255 / 100 + 0.5) } $2, $3, $4;
        } elsif ($in =~ s/^#(\d+)//) {
            $now = $colour{$1};
        } elsif ($in =~ s/^\$//) {
            $x = 0;
        } elsif ($in =~ s/^-//) {
            $x = 0;
            $y += 6;
        } elsif ($in =~ s/^(?:!(\d+))?([?-~])//) {
            for (1 .. $1 || 1) {
                for my $bit (0 .. 5) {
                    next if !((ord($2) - 63) >> $bit & 1);
                    $x < $w && $y + $bit < $h && !defined $rows[$y + $bit][$x] or die "pixel $x, ", $y + $bit;
                    $rows[$y + $bit][$x] = $now;
                }
                $x++;
            }
        } else {
            die "at '", substr($in, 0, 20), "'";
        }
    }
    show(map { my $r = $_; [map { $rows[$r][$_] // '-' } 0 .. $w - 1] } 0 .. $h - 1);
} elsif ($what eq 'blocks') {
    my @rows;
    for my $line (split /\n/, $in) {
        my (@up, @down);
        my ($front, $back) = ('-', '-');
        $line =~ s/\x1b\[0m$// or die "no reset";
        while (length $line) {
            if ($line =~ s/^\x1b\[([34])8;2;(\d+);(\d+);(\d+)m//) {
                ($1 == 3 ? $front : $back) = sprintf '%02x' x 3, $2, $3, $4;
            } else {
                $line =~ s/^\xe2\x96\x80// or die "at $line";
                push @up, $front;
                push @down, $back;
            }
        }
        push @rows, \@up, \@down;
    }
    pop @rows if !grep { $_ ne '-' } @{$rows[-1]};
    show(@rows);
} else {
    die "picture.pl png|frames|kitty|sixel|blocks";
}
