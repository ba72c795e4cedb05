# Makes one call after the other fail in every program: perl run.pl BUILD [EACH [ranks]]. EACH: number of calls of each
# kind, spread from the first to the last (0 or missing: all). A run may fail, but then it must print the reason on one
# line and leave no file; a run that ends with 0 must have the result of a run without faults. Nothing may crash or
# hang. With `ranks` one rank of several fails (if MPI is installed), and all must end.
use strict;
use warnings;
use Cwd 'abs_path';
use File::Temp 'tempdir';
use POSIX ();

my $build = abs_path(shift // die "usage: run.pl BUILD [EACH]\n");
my $each = shift || 0;
my $ranks = shift // '';
my $table = abs_path($0) =~ s{fault/[^/]*$}{programs}r;
my $shim = "$build/fault/fault.so";
my $dir = tempdir(CLEANUP => 1);
chdir $dir or die;
$ENV{PATH} = "$build/bin:$ENV{PATH}";
$ENV{$_} = $ {{LC_ALL => 'C', TZ => 'UTC', VOXPIPE_DEVICE => 'cpu', OMP_NUM_THREADS => 2}}{$_}
    for qw(LC_ALL TZ VOXPIPE_DEVICE OMP_NUM_THREADS);
my %preload = (LD_PRELOAD => $build =~ /./ && `ldd $build/bin/ct-geom` =~ m{(/\S*lib[at]san\S*)} ? "$1 $shim" : $shim);

# libtiff does not close a stack in which memory ran out
open my $known, '>', "$dir/known" or die;
print $known "leak:TIFFClientOpen\n";
close $known;
$ENV{LSAN_OPTIONS} = "suppressions=$dir/known:print_suppressions=0";

my ($in, $out) = ("$dir/in", "$dir/out");
mkdir $_ or die for $in, $out;
system("cd $in && {
    ct-geom --sod 500 --sdd 1000 --detector 20x12 --pitch 4 --views 14 -o scan.geom
    ct-phantom -g scan.geom -o scan.tif
    ct-filter scan.tif -o filtered.tif
    ct-backproject filtered.tif -o vol.tif
    img-math '60000 * exp(-a)' --type u16 scan.tif -o counts.tif
    img-convert vol.tif --compress deflate -o packed.tif
    img-convert --raw-out vol.tif -o vol.raw
    img-cat --region 0:5,0:4 --pages 0:1 vol.tif | img-math 1+x*y -o kernel.tif
    mkdir folder && img-cat vol.tif -o folder/a.tif && img-cat vol.tif -o folder/b.tif && echo $in/vol.tif > list
    echo 12 10 3 > places
}") == 0 or die "the inputs could not be made\n";
# settings of an MPI in a container or as root, and a launcher that does not hang (tests/mpi.bats)
$ENV{$_} = 1 for qw(OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_rmaps_base_oversubscribe FAULT_OURS);
delete $ENV{FAULT_OURS} if !$ranks;
$ENV{PMIX_MCA_gds} = 'hash';
my $size = join 'x', map { chomp(my $v = `img-info --value $_ $in/vol.tif`); $v } qw(nx ny pages);

# %: the output, else standard output is; <FILE: from a pipe
my @runs = map { [split] } grep { /\S/ } split /\n/, <<"END";
ct-geom --show $in/scan.geom
ct-fdk -o % <$in/scan.tif
ct-center --least 1 --try $in/try.png -o % $in/scan.tif
ct-rings --map $in/map.tif -o % <$in/scan.tif
ct-reduce $in/vol.tif $in/vol.tif -o %
ct-reduce --op max --along z <$in/vol.tif -o %
img-info $in/packed.tif
img-info --each-file $in/packed.tif $in/vol.tif
img-cmp $in/vol.tif $in/packed.tif
img-cat $in/folder \@$in/list -o %
img-cat --region 2:10,1:9 -o % <$in/vol.tif
img-convert --type f64 $in/packed.tif -o %
img-convert --compress deflate $in/vol.tif -o %
img-convert --raw-in $size:f32le $in/vol.raw -o %
img-convert --raw-out $in/vol.tif -o %
img-gauss --sigma 1 <$in/vol.tif -o %
img-local --stat mean --radius 2 $in/vol.tif -o %
img-morphrecon --hmax 0.002 --chunk 20x30x7 $in/vol.tif -o %
img-morphrecon --open 1 <$in/vol.tif -o %
img-psf --moffat 3 -o %
img-psf --from $in/vol.tif --positions $in/places --size 3x3x1 --given --negative -o %
img-sat --3d --squares $in/squares.tif <$in/vol.tif -o %
img-threshold --otsu $in/vol.tif -o %
img-threshold --local mean --window 5 -o % <$in/vol.tif
END
# and every program as in the table
for (grep { !/^#/ } split /\n/, slurp($table)) {
    my ($program, $input, $arguments) = map { s/^ +| +$//gr } split /\|/;
    my $files = join ' ', $arguments, $input eq '-' ? () : $input;
    push @runs, [split ' ', join ' ', $program, $files =~ s{\b(\w+\.(?:tif|geom))\b}{$in/$1}gr,
        $program =~ /^img-(?:info|cmp)$/ ? () : '-o %'];
}
# several ranks: N:R PROGRAM ..., of which rank R has the fault
@runs = map { [split] } split /\n/, <<"END" if $ranks;
3:0 ct-fdk $in/scan.tif --gather yes -o %
3:1 ct-fdk $in/scan.tif --grid 1x3 -o %
2:1 ct-fdk --i0 60000 $in/counts.tif --gather yes -o % --raw-out
END
for my $path ($ranks ? () : glob "$build/bin/*") {
    my ($program) = $path =~ m{([^/]+)$};
    grep { $_->[0] eq $program } @runs or die "no run of $program: it needs a line in the list\n";
}

sub slurp { my ($path) = @_; local $/; open my $f, '<', $path or return; return scalar <$f> }

# Returns (status, standard output, standard error) of a run with the given environment.
sub attempt {
    my ($run, %env) = @_;
    my @argv = map { $_ eq '%' ? "$out/result" : $_ } grep { !/^</ } @$run;
    if ($ranks) { # one of them is preloaded
        my ($n, $one) = split /:/, shift @argv;
        my $start = "[ \"\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK}\" != $one ] || export LD_PRELOAD='$preload{LD_PRELOAD}'; "
            . "exec \"\$@\"";
        @argv = (qw(timeout -k 5 40 mpirun --oversubscribe -n), $n, 'sh', '-c', $start, 'sh', @argv);
    }
    my ($from) = map { /^<(.*)/ ? $1 : () } @$run;
    my $pid = fork // die;
    if (!$pid) {
        if ($from) { # a pipe, with the bytes in it
            pipe my $r, my $w or die;
            fcntl($w, 1031, 1 << 20); # F_SETPIPE_SZ
            syswrite $w, slurp($from);
            close $w;
            POSIX::dup2(fileno $r, 0);
        } else {
            open STDIN, '<', '/dev/null';
        }
        open STDOUT, '>', "$dir/stdout";
        open STDERR, '>', "$dir/stderr";
        @ENV{keys %preload} = values %preload if !$ranks;
        @ENV{keys %env} = values %env;
        alarm 60;
        exec @argv or POSIX::_exit(127);
    }
    waitpid $pid, 0;
    return ($?, slurp("$dir/stdout"), slurp("$dir/stderr") // '');
}

my %how = (open => [POSIX::EIO(), POSIX::EINTR()], read => [POSIX::EIO(), POSIX::EINTR(), 'short', 'end'],
    readv => [POSIX::EIO(), POSIX::EINTR(), 'short', 'end'], vmsplice => [POSIX::EINVAL(), POSIX::EINTR()],
    splice => [POSIX::EINVAL(), POSIX::EINTR(), 'short', 'end'],
    pread => [POSIX::EIO(), POSIX::EINTR(), 'short', 'end'], write => [POSIX::ENOSPC(), POSIX::EINTR(), 'short'],
    pwrite => [POSIX::ENOSPC(), POSIX::EINTR(), 'short'], pwritev => [POSIX::ENOSPC(), POSIX::EINTR()],
    ftruncate => [POSIX::ENOSPC()], fallocate => [POSIX::ENOSPC(), POSIX::EINTR()], close => [POSIX::EIO()]);
# Checks that the result has the samples of a run without faults (perhaps in another order or kind of TIFF).
sub same { return -e "$out/result" && system("img-cmp -q $out/result $dir/want 2>/dev/null >&2") == 0 }

$| = 1;
my ($count, $bad) = (0, 0);
for my $round (0 .. $#runs) {
    my $run = $runs[$round];
    my $file = grep { $_ eq '%' } @$run;
    my ($program) = grep { !/:/ } @$run;
    my $result = sub { $file ? slurp("$out/result") : $_[0] };
    my ($status, $text, $said) = attempt($run, FAULT_COUNT => "$dir/calls");
    my $want = $result->($text);
    die "@$run: without a fault: $status $said" if $status || !length $want;
    rename "$out/result", "$dir/want";
    my %calls = split ' ', slurp("$dir/calls");
    my $turn = 0;
    for my $call (sort keys %calls) {
        my $n = $calls{$call};
        next if $ranks && $each == 1 && $n && $turn++ % @runs != $round; # launchers take their time
        my %at = map { $_ => 1 } !$each || $each >= $n ? 1 .. $n
            : $each == 1 ? 1 + int($n * ($count * 0.618 - int($count * 0.618))) # another place in every program
            : map { 1 + int(($n - 1) * $_ / ($each - 1)) } 0 .. $each - 1;
        for my $at (sort { $a <=> $b } keys %at) {
            my @hows = @{$how{$call} // [POSIX::ENOMEM()]};
            @hows = $hows[$count % @hows] if $each;
            for my $how (@hows) {
                ($status, $text, $said) = attempt($run, FAULT => "$call:$at:$how");
                $count++;
                my @left = map { s{.*/}{}r } grep { !m{/result$} } glob("$out/* $out/.*[!.]*");
                my $made = -e "$out/result";
                my $wrong = $status & 127 ? 'killed by signal ' . ($status & 127)
                    : $status >> 8 == 124 || $status >> 8 == 137 ? 'does not end'
                    : @left ? "left @left"
                    : $status == 0 && ($result->($text) // '') ne $want && !same() ? 'status 0 and another result'
                    : $status && $made && $result->('') ne $want ? 'failed, and left a part of the result'
                    : $status && $said !~ /^(?:$program: error|libgomp): \S/m ? 'failed without a word'
                    : $said =~ /Sanitizer/ ? 'a sanitizer complains' : '';
                if ($wrong) {
                    printf "%s: FAULT=%s:%d:%s: %s (status %d)\n", join(' ', map { s{\Q$dir\E/}{}r } @$run), $call, $at,
                        $how, $wrong, $status >> 8;
                    print map { "    $_\n" } split /\n/, substr $said, 0, 600;
                    $bad++;
                }
                unlink glob("$out/* $out/.*[!.]*");
            }
        }
    }
}
print "$count faults, $bad of them badly borne\n";
exit($bad != 0);
