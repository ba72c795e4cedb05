#!/usr/bin/perl
# SPDX-License-Identifier: BSD-3-Clause
# translate.pl FILE: a source of cuda/ as a C++ compiler without CUDA takes it, on standard output (emulate.h).
use strict;
use warnings;

# What the instructions of the assembler come to; the operands have the names that they have in cuda/.
my @MEANS = (
    [qr/""/, ''], # hides an address from the optimiser
    [qr/cp\.async\.cg/, 'memcpy((void *)to, from, 16);'],
    [qr/cp\.async\.ca/, 'memcpy((void *)to, from, BYTES);'],
    [qr/commit_group|wait_group|griddepcontrol|fence\.acq_rel/, ''],
    [qr/ld\.relaxed/, 'emulate::yield(); v = *p;'],
    [qr/st\.relaxed\.gpu\.global\.v2/, 'p[0] = v, p[1] = w;'],
    [qr/st\.relaxed/, '*p = v;'],
    [qr/globaltimer/, 'emulate::yield(); t = emulate::tick();'],
    [qr/cvt\.rni\.sat\.u8/, 'w = (int)emulate::rounded(v, 0, 255);'],
    [qr/cvt\.rni\.sat\.u16/, 'w = (int)emulate::rounded(v, 0, 65535);'],
    [qr/cvt\.rni\.sat\.s16/, 'w = (int)emulate::rounded(v, -32768, 32767);'],
    [qr/fma\.rn\.f32 %0, %1, 0f3f800000/, 'if (v != v) v = __int_as_float(0x7fffffff);'],
    [qr/rcp\.approx\.ftz\.f64/, 'r = (float)(1 / x);'],
    [qr/rcp\.approx\.ftz\.f32/, 'r = 1 / x;'],
    [qr/ld\.global\.cs\.f32/, 'x = yes ? *p : 0;'],
    [qr/selp\.b32 l, l, 0, p/, 's = emulate::from_left(s, D, (uint64_t)0);'],
    [qr/\@p add\./, 's = s + emulate::from_left(s, D, (decltype(s + s))0);'],
    [qr/mbarrier|cp\.async\.bulk|setmaxnreg|ld\.shared/, 'abort();'], # of devices that are newer than the emulated one
);

sub means
{
    my ($asm) = @_;
    for my $pair (@MEANS) {
        return "{ $pair->[1] }" if $asm =~ $pair->[0];
    }
    die "translate.pl: $ARGV[0]: nothing is known of $asm\n";
}

die "usage: translate.pl FILE\n" unless @ARGV == 1;
open my $file, '<', $ARGV[0] or die "translate.pl: $ARGV[0]: $!\n";
my $text = join '', <$file>;
$text =~ s/\basm(?: volatile)?\((?:"(?:[^"\\]|\\.)*"|[^;"])*\);/means($&)/ge;
# memory that is allotted at the launch; what is declared so has the type that it is used as
my $allotted = qr/extern __shared__ (?:__align__\(\d+\) )?(\w+(?: \w+)*) (\w+)\[\];/;
$text =~ s/$allotted/$1 *const $2 = ($1 *)emulate::now.shared;/g;
$text =~ s/(?<![.\w>])(threadIdx|blockIdx|blockDim|gridDim)\b/emulate::$1()/g;
$text =~ s/\bcudaLaunchKernelEx\(&c, kernel, P\(args\)\.\.\.\)/emulate::start(&c, kernel, args...)/g;
$text =~ s/^#include <cuda_pipeline_primitives\.h>\n/\n/mg;
print qq(#line 1 "$ARGV[0]"\n), $text;
