#!/usr/bin/perl
# Checks the rules of the rooms (ARCHITECTURE.md): layers.pl DIR prints each place that breaks one.
# - Includes point one way.
# - Tags and public names are unique: the tag of a struct, union or enum in a header belongs to it alone in all rooms, a
#   tag in a source file to that file in its room (each of tools/ is a program of its own), and a function or a macro is
#   declared in one header.
use strict;
use warnings;

my %may = (
    base => '', stack => 'base', device => 'base', geom => 'base stack', engine => 'base stack device',
    ct => 'base stack geom device engine', local => 'base stack engine', global => 'base stack engine local',
    pages => 'base stack geom engine', app => 'base stack geom device engine ct local global pages',
    tools => 'base stack geom engine ct local global pages app', # never a device
    cuda => 'base device engine ct local global', mpi => 'base device', hdf5 => 'base stack', fftw => 'base',
);
my $bad = 0;
# Tags that are still to be renamed. This list may only get shorter.
# nested types of C++ classes, one name for one role
my %twice = map { $_ => 1 } qw(box cursor);
my (%tag, %name); # tag or name => places of its definitions

sub complain { print "@_\n"; $bad = 1 }

chdir $ARGV[0] or die "$ARGV[0]: $!";
for my $dir (glob 'common/*/') {
    my ($room) = $dir =~ m{/(\w+)/};
    complain("$dir: not a room of tests/layers.pl") if !exists $may{$room};
}
for my $file (glob 'common/*/*.{c,h,inc} tools/*.c cuda/*.{c,h,cu,cuh} {mpi,hdf5,fftw}/*.c') {
    my ($room) = $file =~ m{^(?:common/)?(\w+)/};
    my %to = map { $_ => 1 } $room, split ' ', $may{$room} // next;
    open my $in, '<', $file or die "$file: $!";
    my $last = '';
    while (<$in>) {
        complain("$file:$.: $room/ includes $1/: expected one of ", join ' ', sort keys %to)
            if m{^\s*#\s*include "(\w+)/} && !$to{$1};
        complain("$file:$.: struct vp_run belongs to the programs (tools/, common/app/)")
            if /\bstruct vp_run\b/ && $room ne 'app' && $room ne 'tools';
        my $header = $file =~ /h$/;
        push @{$tag{$2}}, {at => "$file:$.: $1 $2", header => $header, scope => $room eq 'tools' ? $file : $room}
            if /^\s*(?:static |const |typedef )*(struct|union|enum)\s+(?:\w+\([^{]*\)\s*)?(\w+)\s*\{/;
        $name{$1}{$file} = "$file:$.: $1"
            if $header && (/^(?:[a-z]\w*[\s*]+)+(vp_\w+)\(/ || /^#\s*define (VP_\w+)/ && $last !~ /^#\s*ifndef $1$/);
        complain("$file:$.: qsort allocates memory beyond --memory: expected vp_sort (base/sort.h)")
            if /\bqsort(?:_r)?\(/;
        $last = $_;
    }
}
for my $of (map { $tag{$_} } grep { !$twice{$_} } sort keys %tag) {
    for my $i (1 .. $#$of) {
        my ($one) = grep { $_->{header} || $of->[$i]{header} || $_->{scope} eq $of->[$i]{scope} } @$of[0 .. $i - 1];
        complain("$of->[$i]{at}: expected a tag of its own: also $one->{at}") if $one;
    }
}
for my $of (map { $name{$_} } sort keys %name) {
    my ($one, @other) = map { $of->{$_} } sort keys %$of;
    complain("$_: expected a name of its own: also $one") for @other;
}
exit $bad;
