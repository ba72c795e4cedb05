#!/usr/bin/perl
# Counts words in comments of C and CUDA sources that a programmer of the field would not write (CONTRIBUTING.md):
#   english.pl DIR             prints each place and the totals; exit status 1 if a total is above what is allowed
#   english.pl DIR ROOM...     the same for files whose name begins with a ROOM (common/geom, tools); exit status 0
use strict;
use warnings;

# These numbers may only fall.
my %allowed = (head => 0, 'so many' => 0, behind => 0, tell => 0, ask => 0, whoever => 0);
my @pattern = (
    [head => qr/\A[\s*]*\K(?:what|whether|of|where|how|whose|who|which)\b/i], # write a verb or a noun
    ['so many' => qr/\b(?:so|as) many\b/i], # name the variable
    [behind => qr/\bbehind\b/i], # after, beyond, through
    [tell => qr/\b(?:tell|tells|telling|told)\b/i], # report, publish, distinguish
    [ask => qr/\b(?:ask|asks|asked|asking)\b/i], # request, query, require
    [whoever => qr/\b(?:whoever|nobody|somebody)\b/i],
);

# Returns [line, text] for each comment of C source, text without the delimiters. Adjacent // lines are one comment.
sub comments {
    my ($source) = @_;
    my ($line, @comment) = (1);
    while ($source =~ m{\G(?:
            (?<comment> //[^\n]*(?:\n[ \t]*//[^\n]*)* | /\*.*?\*/) |
            "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' | .)}gcsx) {
        my $all = $&;
        if (defined $+{comment}) {
            my $text = $+{comment};
            $text =~ s{^[ \t]*//+ ?}{}mg if $text !~ s{\A/\*+[ \t]*|\s*\*/\z}{}g;
            push @comment, [$line, $text];
        }
        $line += $all =~ tr/\n//;
    }
    return @comment;
}

chdir shift or die "$!";
my @room = @ARGV;
my %found = map { $_->[0] => 0 } @pattern;
for my $file (glob '{common/*,cuda,tools,mpi,fftw,docs}/*.{c,h,inc,cu,cuh}') {
    next if @room && !grep { index($file, $_) == 0 } @room;
    open my $in, '<', $file or die "$file: $!";
    for (comments(do { local $/; <$in> })) {
        my ($line, $text) = @$_;
        for (@pattern) {
            my ($name, $re) = @$_;
            while ($text =~ /$re/g) {
                my $at = $line + (substr($text, 0, $-[0]) =~ tr/\n//);
                my $near = substr $text, $-[0] > 30 ? $-[0] - 30 : 0, 90;
                $near =~ s/\s*\n[\s*]*/ /g;
                print "$file:$at: $name: $near\n";
                $found{$name}++;
            }
        }
    }
}
my $bad = 0;
for (map { $_->[0] } @pattern) {
    print "$_: $found{$_}", @room ? '' : ", allowed $allowed{$_}", "\n";
    $bad = 1 if $found{$_} > $allowed{$_};
}
exit(@room ? 0 : $bad);
