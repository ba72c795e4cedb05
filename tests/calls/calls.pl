#!/usr/bin/perl
# Prints the path of the data through a program: calls.pl PROGRAM SMALL LARGE, two tables of trace.c from runs over
# little and much data. Functions that the larger run calls more often are on the path. A crossing is a pair of files of
# which one calls into the other; a climb is a call into a higher room (ARCHITECTURE.md), by a table of functions.
use strict;
use warnings;

my @rooms = qw(base stack device geom engine local global ct pages app tools); # from the ground up
my %rank = map { $rooms[$_] => $_ } 0 .. $#rooms;
$rank{device} = $rank{stack};
$rank{ct} = $rank{pages} = $rank{local};

sub table {
    my ($path) = @_;
    my %calls;
    open my $in, '<', $path or die "$path: $!\n";
    while (<$in>) { my ($from, $to, $n) = split; $calls{"$from $to"} = $n }
    return \%calls;
}

my ($program, $small, $large) = @ARGV;
my ($few, $many) = (table($small), table($large));
my @path = map { [split] } grep { $many->{$_} > ($few->{$_} // 0) } sort keys %$many;
my %address = map { $_ => 1 } grep { $_ ne '0' } map { @$_ } @path;
my @address = sort keys %address;
my @line = split /\n/, `addr2line -f -e '$program' @{[map { "0x$_" } @address]}`;
my (%function, %file);
for my $i (0 .. $#address) {
    $function{$address[$i]} = $line[2 * $i];
    ($file{$address[$i]} = $line[2 * $i + 1]) =~ s{:.*|^.*/(?=(?:common|tools)/)}{}g;
}
sub room { $_[0] =~ m{^(?:common/)?(\w+)/} ? $1 : '' }

my (%in, %crossing, %climb);
for my $call (@path) {
    my ($from, $to) = @$call;
    $in{$file{$to}}{$function{$to}} = 1;
    next if $from eq '0' || $file{$from} eq $file{$to};
    $crossing{"$file{$from} $file{$to}"} = 1;
    my ($a, $b) = map { $rank{room($_)} } $file{$from}, $file{$to};
    $climb{"$file{$from}: $function{$from} -> $file{$to}: $function{$to}"} = 1 if defined $a && defined $b && $b > $a;
}
my $functions = 0;
for my $name (sort keys %in) {
    printf "    %-34s %s\n", $name, join ' ', sort keys %{$in{$name}};
    $functions += keys %{$in{$name}};
}
print "    climb: $_\n" for sort keys %climb;
printf "%d functions in %d files, %d crossings, %d climbs\n", $functions, scalar keys %in, scalar keys %crossing,
    scalar keys %climb;
