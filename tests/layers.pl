#!/usr/bin/perl
# The rooms of the house know each other in one direction (ARCHITECTURE.md): layers.pl DIR names what breaks that.
use strict;
use warnings;

my %may = (
    base => '', stack => 'base', device => 'base', geom => 'base stack', engine => 'base stack device',
    ct => 'base stack geom device engine', local => 'base stack engine', global => 'base stack engine local',
    pages => 'base stack geom engine', app => 'base stack geom device engine ct local global pages',
    tools => 'base stack geom engine ct local global pages app', # never a device
    cuda => 'base device engine ct local global', mpi => 'base device', fftw => 'base',
);
my $bad = 0;

sub complain { print "@_\n"; $bad = 1 }

chdir $ARGV[0] or die "$ARGV[0]: $!";
for my $dir (glob 'common/*/') {
    my ($room) = $dir =~ m{/(\w+)/};
    complain("$dir: a room that tests/layers.pl does not know") if !exists $may{$room};
}
for my $file (glob 'common/*/*.[ch] common/*/*.inc tools/*.c cuda/*.c cuda/*.h cuda/*.cu cuda/*.cuh mpi/*.c fftw/*.c') {
    my ($room) = $file =~ m{^(?:common/)?(\w+)/};
    my %to = map { $_ => 1 } $room, split ' ', $may{$room} // next;
    open my $in, '<', $file or die "$file: $!";
    while (<$in>) {
        complain("$file:$.: $room/ knows $1/: expected one of ", join ' ', sort keys %to)
            if m{^\s*#\s*include "(\w+)/} && !$to{$1};
        complain("$file:$.: struct vp_run belongs to the programs (tools/, common/app/)")
            if /\bstruct vp_run\b/ && $room ne 'app' && $room ne 'tools';
        complain("$file:$.: qsort takes memory that nobody counts: vp_sort (base/sort.h)") if /\bqsort(?:_r)?\(/;
    }
}
exit $bad;
