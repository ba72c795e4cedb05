#!/usr/bin/perl
# Writes an OLE2 file: ole.pl FILE NAME=HEX..., each a stream FOLDER/NAME; those below 4096 bytes are in the mini stream.
use strict;
use warnings;
my ($file, @streams) = @ARGV;
my (@item, %folder, $mini, @minifat, $data, @fat);
sub item { push @item, {name => $_[0], kind => $_[1], bytes => 0, start => 0xfffffffe, child => -1, right => -1}; $#item }
sub child { my ($of, $i) = @_; $item[$i]{right} = $item[$of]{child}; $item[$of]{child} = $i }
sub store { # appends bytes to sectors of a size and their chain to a table; returns the first
    my ($bytes, $size, $to, $table) = @_;
    return 0xfffffffe if $bytes eq '';
    my $first = @$table;
    my $n = int((length($bytes) + $size - 1) / $size);
    $$to .= $bytes . "\0" x ($n * $size - length $bytes);
    push @$table, map { $_ == $n - 1 ? 0xfffffffe : $first + $_ + 1 } 0 .. $n - 1;
    $first;
}
($mini, $data) = ('', '');
item('Root Entry', 5);
for (@streams) {
    my ($path, $hex) = split /=/, $_, 2;
    my ($dir, $name) = split m{/}, $path;
    if (!exists $folder{$dir}) { $folder{$dir} = item($dir, 1); child(0, $folder{$dir}) }
    my $i = item($name, 2);
    child($folder{$dir}, $i);
    my $bytes = pack 'H*', $hex;
    $item[$i]{bytes} = length $bytes;
    $item[$i]{start} = length $bytes < 4096 ? store($bytes, 64, \$mini, \@minifat) : store($bytes, 512, \$data, \@fat);
}
$item[0]{start} = store($mini, 512, \$data, \@fat);
$item[0]{bytes} = length $mini;
my $minifat = store(pack('V*', @minifat), 512, \$data, \@fat);
my $entries = '';
for (@item) {
    my $name = pack 'v*', unpack('C*', $_->{name}), 0;
    $entries .= pack 'a64vCC V3 x36 V V2', $name, length $name, $_->{kind}, 1, 0xffffffff, map({ $_ < 0 ? 0xffffffff : $_ } $_->{right},
        $_->{child}), $_->{start}, $_->{bytes}, 0;
}
my $directory = store($entries, 512, \$data, \@fat);
my $own = 1;
$own++ while @fat + $own > 128 * $own;
my $first = @fat;
push @fat, (0xfffffffd) x $own;
$data .= pack 'V*', @fat, (0xffffffff) x (128 * $own - @fat);
open my $out, '>:raw', $file or die "$file: $!";
print $out pack('H16 x16 v5 x6 V9 V109', 'd0cf11e0a1b11ae1', 0x3e, 3, 0xfffe, 9, 6, 0, $own, $directory, 0, 4096, $minifat,
    int((@minifat + 127) / 128), 0xfffffffe, 0, (map { $first + $_ } 0 .. $own - 1), (0xffffffff) x (109 - $own));
print $out $data;
