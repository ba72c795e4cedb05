#!/usr/bin/perl
# SPDX-License-Identifier: BSD-3-Clause
# translate.pl FILE: translates a source of cuda/ to C++ that compiles without CUDA, on standard output (emulate.h).
use strict;
use warnings;

# C++ for each assembler instruction; the operands have the names that they have in cuda/. OPERAND: the text that the
# pattern captures.
my @MEANS = (
    [qr/""/, ''], # hides an address from the optimiser
    [qr/cp\.async\.cg/, 'emulate::copy_later((void *)to, from, 16);'],
    [qr/cp\.async\.ca/, 'emulate::copy_later((void *)to, from, BYTES);'],
    [qr/commit_group.*wait_group 0/s, 'emulate::close_copies(), emulate::await_copies(0);'],
    [qr/commit_group/, 'emulate::close_copies();'],
    [qr/wait_group/, 'emulate::await_copies(LEFT);'],
    [qr/\btrap;/, 'emulate::die("trap");'],
    [qr/griddepcontrol|fence\.acq_rel|fence\.mbarrier_init/, ''],
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
    [qr/cp\.async\.bulk\.tensor\.3d\.shared/, 'emulate::copy_box(to, map, x, y, z, full);'],
    [qr/cp\.async\.bulk\.shared/, 'emulate::copy_bulk(to, from, bytes, full);'],
    [qr/mbarrier\.init/, 'emulate::phases_init(b, arrivals);'],
    [qr/mbarrier\.arrive\.expect_tx/, 'emulate::phases_expect(b, bytes);'],
    [qr/mbarrier\.arrive/, 'emulate::phases_arrive(b);'],
    [qr/mbarrier\.(?:try|test)_wait\.parity.*bra/s, 'emulate::phases_wait(b, parity);'],
    [qr/setmaxnreg.*"n"\((.*)\)\);/s, 'emulate::set_registers(OPERAND);'],
    [qr/ld\.shared\.v2\.f32 .*\+.*"n"\((.*)\)\);/s, 'high = emulate::load_shared<float2>(at + (OPERAND));'],
    [qr/ld\.shared\.v2\.f32/, 'low = emulate::load_shared<float2>(at);'],
);

sub means
{
    my ($asm) = @_;
    for my $pair (@MEANS) {
        next unless $asm =~ $pair->[0];
        my ($operand, $to) = ($1, $pair->[1]);
        $to =~ s/OPERAND/$operand/;
        return "{ $to }";
    }
    die "translate.pl: $ARGV[0]: nothing is known of $asm\n";
}

die "usage: translate.pl FILE\n" unless @ARGV == 1;
open my $file, '<', $ARGV[0] or die "translate.pl: $ARGV[0]: $!\n";
my $text = join '', <$file>;
$text =~ s/\basm(?: volatile)?\((?:"(?:[^"\\]|\\.)*"|[^;"])*\);/means($&)/ge;
# dynamic shared memory, declared with the type of its use
my $allotted = qr/extern __shared__ (?:__align__\(\d+\) )?(\w+(?: \w+)*) (\w+)\[\];/;
$text =~ s/$allotted/$1 *const $2 = ($1 *)emulate::now.shared;/g;
$text =~ s/(?<![.\w>])(threadIdx|blockIdx|blockDim|gridDim)\b/emulate::$1()/g;
$text =~ s/\bcudaLaunchKernelEx\(&c, kernel, P\(args\)\.\.\.\)/emulate::start(&c, kernel, args...)/g;
$text =~ s/^#include <cuda_pipeline_primitives\.h>\n/\n/mg;
print qq(#line 1 "$ARGV[0]"\n), $text;
