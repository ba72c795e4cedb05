# voxpipe: one build for everything. `make help` lists the targets.

MAKEFLAGS += -rR
.DELETE_ON_ERROR:
.SUFFIXES:

O       ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
BINDIR  ?= $(PREFIX)/bin
LIBDIR  ?= $(PREFIX)/lib/voxpipe
MANDIR  ?= $(PREFIX)/share/man
BASHCOMPDIR ?= $(PREFIX)/share/bash-completion/completions
ZSHCOMPDIR  ?= $(PREFIX)/share/zsh/site-functions
FISHCOMPDIR ?= $(PREFIX)/share/fish/vendor_completions.d
DOCDIR  ?= $(PREFIX)/share/doc/voxpipe
ifneq ($(filter default undefined,$(origin CC)),) # undefined: recursive make, which has no defaults
CC      := gcc
endif
ifneq ($(filter default undefined,$(origin CXX)),)
CXX     := g++
endif
CFLAGS  ?= -O3 -g
CPPFLAGS ?=
SAN     ?=
# CUDA=auto builds the plugin if nvcc is found, 1 requires it, 0 omits it. GPU_ARCH replaces the list of targets.
CUDA    ?= auto
NVCC    ?= $(firstword $(wildcard $(shell command -v nvcc 2>/dev/null) /usr/local/cuda/bin/nvcc))
# MPI=auto, 1 or 0 likewise, if mpicc is found: for ct-fdk, ct-iterate and ct-project on many hosts.
MPI     ?= auto
MPICC   ?= $(firstword $(shell command -v mpicc 2>/dev/null))
# FFTW in double precision, for the two programs that compute in f64: auto uses it if found, 1 requires it, 0 omits
# f64. It is under the GNU GPL, so programs linked with it are distributed under its terms: bundles need FFTW=1 for it.
FFTW    ?= auto
HARDEN  ?= 1
comma   := ,
number  := \#
WERROR  ?= 0
V       ?= 0

# The hash of this tree's own repository: a tarball may lie inside another one.
RELEASE := $(shell cat VERSION)
COMMIT  := $(shell [ "$$(git rev-parse --show-toplevel 2>/dev/null)" = "$$(pwd -P)" ] && \
    git describe --tags --always --dirty)
VERSION := $(RELEASE)$(if $(findstring $(RELEASE),$(COMMIT)),,$(COMMIT:%=+%))

WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wpointer-arith -Wwrite-strings
ifeq ($(WERROR),1)
WARN    += -Werror
endif
CLANG   := $(findstring clang,$(shell $(CC) --version))
WARN    += $(if $(CLANG),-Wno-pass-failed)
ifneq ($(SAN),)
SANFLAGS := -fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all
endif
# Inputs are untrusted files: a buffer overflow must end the program. If compiler and linker support it, and without
# sanitizers, which detect more; HARDEN=0 omits it.
tries    = $(if $(filter 0,$(HARDEN))$(SAN),,$(shell echo 'int main(void) { return 0; }' | \
    $(CC) -O1 -Werror $(1) -x c -o /dev/null - 2>/dev/null && echo '$(1)'))
HARDC   := $(call tries,-fstack-protector-strong)
HARDC   += $(if $(filter -O1 -O2 -O3 -Os,$(CFLAGS)),$(call tries,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2))
HARDLD  := $(call tries,-Wl$(comma)-z$(comma)relro$(comma)-z$(comma)now)
# Functions in sections of their own: each program leaves out those that it does not call.
SECTIONS := -ffunction-sections -fdata-sections
GC       := $(call tries,-Wl$(comma)--gc-sections)
ALLCFLAGS = -std=c11 $(SECTIONS) -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -Icommon -I$(OBJ) $(WARN) $(HARDC) \
            -fopenmp -fPIC -fno-math-errno -ffp-contract=off $(CPPFLAGS) $(CFLAGS) $(SMALL) $(SANFLAGS)
LIBS    := -ltiff -lz -lm -lpthread -ldl
# OpenMP's runtime is linked statically if possible: app/tool.c then configures it before it starts
GOMPLIB := $(if $(CLANG),,$(filter /%,$(shell $(CC) -print-file-name=libgomp.a)))
# ... and its messages are printed by app/openmp.c
GOMP     = $(if $(GOMPLIB),$(GOMPLIB) -Wl$(comma)--wrap=gomp_fatal$(comma)--wrap=gomp_error $(LIB))
LINKFLAGS = $(if $(GOMP),$(filter-out -fopenmp,$(ALLCFLAGS)),$(ALLCFLAGS)) $(HARDLD) $(GC)
BENCHLIBS := -lfftw3f          # peers of the benchmarks

# The path of objects contains a hash of the flags, so that different builds never mix.
hash     = $(shell printf '%s' '$(1)' | cksum | cut -d' ' -f1)
HASH    := $(call hash,$(CC) $(CFLAGS) $(LDFLAGS) $(SAN) $(WERROR)$(filter 0,$(HARDEN))$(CPPFLAGS:%= %))
OBJ     := $(O)/obj-$(HASH)
BIN     := $(O)/bin

# All that is missing is named at once, before the first file is compiled.
NOTHING := clean help install-data uninstall
ifneq ($(filter-out $(NOTHING),$(or $(MAKECMDGOALS),all)),)
ifeq ($(wildcard $(OBJ)/complete),)
ifneq ($(shell sh packaging/missing.sh '$(CC)' '$(CPPFLAGS) $(CFLAGS)'),)
$(error something is missing, see above)
endif
$(shell mkdir -p $(OBJ) && touch $(OBJ)/complete)
endif
endif

TOOLS   := $(sort $(notdir $(basename $(wildcard tools/*.c))))
LIBSRC  := $(sort $(wildcard common/*/*.c))
# *_isa.c is compiled once for each instruction set, selected at run time.
ISASRC  := $(filter %_isa.c,$(LIBSRC))
PLAINSRC:= $(filter-out %_isa.c,$(LIBSRC))
ISAS    := $(if $(filter x86_64,$(shell uname -m)),avx512 avx2) generic
ISAFLAGS_avx512  := -march=x86-64-v4 -mprefer-vector-width=512 -mtune=icelake-server
ISAFLAGS_avx2    := -march=x86-64-v3
ISAFLAGS_generic :=
# Headers that a plugin shares with the programs: a plugin built from others is rejected.
BUILD   := 0x$(shell cat $(sort $(wildcard common/*/*.h common/*/*.inc)) | sha256sum | cut -c1-16)ull
# not instrumented: not fuzzed, and slow to compile
ISASAN  := $(if $(findstring fuzzer,$(SAN)),-fno-sanitize=all)
LIBOBJ  := $(PLAINSRC:%.c=$(OBJ)/%.o) $(foreach i,$(ISAS),$(ISASRC:%.c=$(OBJ)/%.$(i).o))
LIB     := $(OBJ)/libvoxpipe.a
UNIT    := $(sort $(notdir $(basename $(wildcard tests/unit/*.c))))
BENCH   := $(sort $(notdir $(basename $(wildcard tests/bench/*_bench.c))))
FUZZ    := $(patsubst tests/fuzz/%_fuzz.c,%,$(sort $(wildcard tests/fuzz/*_fuzz.c)))

# The CUDA plugin. Instructions of Hopper and Blackwell need their own targets (sm_90a, sm_100a); other cards use the
# portable kernels, those newer than the toolkit through PTX.
ifneq ($(CUDA),0)
ifneq ($(NVCC),)
PLUGIN  := $(O)/lib/voxpipe/voxpipe-cuda.so
else ifeq ($(CUDA),1)
$(error CUDA=1, but there is no nvcc: set NVCC=/path/to/nvcc)
endif
endif
# The MPI plugin: messages between processes on many hosts.
ifneq ($(MPI),0)
ifneq ($(MPICC),)
RANKS   := $(O)/lib/voxpipe/voxpipe-mpi.so
else ifeq ($(MPI),1)
$(error MPI=1, but there is no mpicc: set MPICC=/path/to/mpicc)
endif
endif
# The HDF5 plugin, if its header is found, likewise. HDF5FLAGS and HDF5LIBS replace what pkg-config says.
HDF5    ?= auto
ifneq ($(HDF5),0)
HDF5FLAGS ?= $(shell pkg-config --cflags hdf5 2>/dev/null)
HDF5LIBS  ?= $(or $(shell pkg-config --libs hdf5 2>/dev/null),-lhdf5)
ifeq ($(shell echo '$(number)include <hdf5.h>' | $(CC) $(HDF5FLAGS) -E -x c - >/dev/null 2>&1 && echo yes),yes)
CONTAINER := $(O)/lib/voxpipe/voxpipe-hdf5.so
else ifeq ($(HDF5),1)
$(error HDF5=1, but there is no hdf5.h: install HDF5 (libhdf5-dev), or set HDF5FLAGS and HDF5LIBS)
endif
endif
PLUGINS := $(PLUGIN) $(RANKS) $(CONTAINER)
# One program has all names, which are links to it: the library is in memory and on disk once, and linked once. The two
# that FFTW is linked with are a second one, so that the GNU GPL has no part in the rest.
WITHFFTW := img-convolve img-deconvolve
ifneq ($(FFTW),0)
FFTWLIBS := $(shell pkg-config --libs fftw3 2>/dev/null || \
    { echo '$(number)include <fftw3.h>' | $(CC) -E -x c - >/dev/null 2>&1 && echo -lfftw3; })
ifneq ($(FFTWLIBS),)
FFTWOBJ := $(OBJ)/fftw/fftw.o
else ifeq ($(FFTW),1)
$(error FFTW=1, but there is no fftw3.h: install FFTW 3 (libfftw3-dev))
endif
endif
SECOND   := $(if $(FFTWOBJ),$(filter $(WITHFFTW),$(TOOLS)))
MAINS    := $(filter voxpipe,$(TOOLS)) $(firstword $(SECOND))
BUNDLE2  := $(if $(filter 1,$(FFTW)),$(SECOND))
PROGRAMS := $(patsubst %,X(vp_program_%),$(subst -,_,$(TOOLS)))
# links FOLDER SECOND: the names as links to the programs there
links     = for t in $(TOOLS); do \
                case " $(2) " in *" $$t "*) m=$(firstword $(2)) ;; *) m=voxpipe ;; esac; \
                [ $$t = $$m ] || [ "$(1)/$$t" -ef "$(1)/$$m" ] || ln -sf $$m "$(1)/$$t" || exit 1; done
CUDAROOT := $(patsubst %/bin/nvcc,%,$(NVCC))
GPU_ARCH ?= -gencode arch=compute_80,code=[sm_80,compute_80] -gencode arch=compute_90,code=sm_90
HOPPER_ARCH ?= -gencode arch=compute_90a,code=sm_90a \
    $(if $(findstring compute_100,$(shell $(NVCC) --list-gpu-arch 2>/dev/null)),-gencode arch=compute_100a$(comma)code=sm_100a)
NVCCFLAGS ?=
NVFLAGS  = -O3 -std=c++17 $(NVCCFLAGS) -Xcompiler \
    -fPIC,-Wall,-Wextra,-Wno-missing-field-initializers,-fvisibility=hidden$(patsubst %,$(comma)%,$(filter -f%,$(HARDC))) \
    -Icommon -Icuda
GPUHASH := $(if $(PLUGIN),$(call hash,$(NVCC) $(GPU_ARCH) $(HOPPER_ARCH) $(NVCCFLAGS)))
CUDAOBJ := $(patsubst %,$(OBJ)/$(GPUHASH)/%.o,$(sort $(wildcard cuda/*.cu cuda/*.c)))

Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-7s %s\n' $(1) $(2);)

## all: build every program into build/bin (default)
all: links $(PLUGINS)

define isa_rule
$(OBJ)/%.$(1).o: %.c Makefile
	$$(call say,CC,'$$< ($(1))')mkdir -p $$(@D) && $$(CC) $$(ALLCFLAGS) $$(ISAFLAGS_$(1)) -ffp-contract=fast $$(ISASAN) \
	    -DVP_ISA=$(1) -MMD -MP -MT $$@ -c -o $$@ $$<
endef
$(foreach i,$(ISAS),$(eval $(call isa_rule,$(i))))

# option tables, plans and headers of files: no loops that take time
$(OBJ)/tools/%.o $(OBJ)/common/app/%.o $(OBJ)/common/geom/%.o $(OBJ)/common/engine/%.o $(OBJ)/common/device/%.o \
    $(patsubst %,$(OBJ)/common/stack/%.o,foreign hdf5_scan meta_image nifti nrrd ole paths set stack txrm): SMALL = $(if $(filter -O3,$(CFLAGS)),-Os)
$(OBJ)/%.o: %.c Makefile
	$(call say,CC,$<)mkdir -p $(@D) && $(CC) $(ALLCFLAGS) -MMD -MP -MT $@ -c -o $@ $<

# recompiled for another commit, and nothing else is
$(OBJ)/common/app/version.o: ALLCFLAGS += -DVP_VERSION='"$(VERSION)"'
$(OBJ)/common/app/version.o: $(OBJ)/version
$(OBJ)/version: FORCE
	@mkdir -p $(@D) && { echo '$(VERSION)' | cmp -s - $@ || echo '$(VERSION)' >$@; }

$(OBJ)/$(GPUHASH)/cuda/%.c.o: cuda/%.c Makefile
	$(call say,CC,$<)mkdir -p $(@D) && $(CC) $(ALLCFLAGS) -fvisibility=hidden -Icuda -I$(CUDAROOT)/include -MMD -MP -MT \
	    $@ -c -o $@ $<
$(OBJ)/$(GPUHASH)/cuda/%.cu.o: cuda/%.cu Makefile
	$(call say,NVCC,$<)mkdir -p $(@D) && $(NVCC) $(NVFLAGS) $(if $(findstring hopper,$<),$(HOPPER_ARCH),$(GPU_ARCH)) -MD \
	    -MP -MT $@ -MF $(@:.o=.d) -c -o $@ $<
# exports two functions; the CUDA runtime is linked statically, so that only the driver is needed
$(PLUGIN): $(CUDAOBJ) $(LIB) $(O)/flags
	$(call say,LD,$@)mkdir -p $(@D) && $(NVCC) -shared -o $@.tmp $(CUDAOBJ) $(LIB) $(HARDLD:-Wl,%=-Xlinker %) -Xlinker \
	    --exclude-libs,ALL -Xcompiler -fopenmp -Xlinker -rpath,'$$ORIGIN' -lpthread -lm && mv -f $@.tmp $@

$(OBJ)/mpi/%.o: mpi/%.c Makefile
	$(call say,MPICC,$<)mkdir -p $(@D) && OMPI_CC='$(CC)' MPICH_CC='$(CC)' $(MPICC) $(ALLCFLAGS) -fvisibility=hidden -MMD \
	    -MP -MT $@ -c -o $@ $<
$(RANKS): $(OBJ)/mpi/mpi.o $(LIB) $(O)/flags
	$(call say,LD,$@)mkdir -p $(@D) && OMPI_CC='$(CC)' MPICH_CC='$(CC)' $(MPICC) $(filter-out -fopenmp,$(ALLCFLAGS)) \
	    $(HARDLD) -shared -o $@.tmp $(OBJ)/mpi/mpi.o $(LIB) -Wl,--exclude-libs,ALL $(LDFLAGS) -lpthread && mv -f $@.tmp $@

$(OBJ)/hdf5/%.o: hdf5/%.c Makefile
	$(call say,CC,$<)mkdir -p $(@D) && $(CC) $(ALLCFLAGS) $(HDF5FLAGS) -fvisibility=hidden -MMD -MP -MT $@ -c -o $@ $<
$(CONTAINER): $(OBJ)/hdf5/hdf5.o $(LIB) $(O)/flags
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) $(filter-out -fopenmp,$(ALLCFLAGS)) $(HARDLD) -shared -o $@.tmp \
	    $(OBJ)/hdf5/hdf5.o $(LIB) -Wl,--exclude-libs,ALL $(LDFLAGS) $(HDF5LIBS) -lpthread && mv -f $@.tmp $@

# Changes if a shared header does.
$(OBJ)/build.h: FORCE
	@mkdir -p $(@D) && { echo '#define VP_BUILD $(BUILD)' | cmp -s - $@ || echo '#define VP_BUILD $(BUILD)' >$@; }
$(OBJ)/common/base/plugin.o $(OBJ)/common/device/find.o $(OBJ)/common/device/ranks.o $(OBJ)/mpi/mpi.o \
    $(OBJ)/hdf5/hdf5.o $(OBJ)/cuda/device.c.o $(OBJ)/tests/plugin/plugin.o: \
    $(OBJ)/build.h

$(LIB): $(LIBOBJ)
	$(call say,AR,$@)rm -f $@ && ar rcs $@ $^

# relinked when FFTW is added or removed
$(OBJ)/fftw.use: FORCE
	@mkdir -p $(@D) && { echo '$(FFTW) $(FFTWLIBS)' | cmp -s - $@ || echo '$(FFTW) $(FFTWLIBS)' >$@; }
$(foreach i,$(if $(SECOND),bin/img-convolve) $(if $(BUNDLE2),bundle/img-convolve) \
    unit/convolve_test unit/deconvolve_test unit/plans_test bench/convolve_bench,\
    $(eval $(OBJ)/$(i): $(FFTWOBJ) $(OBJ)/fftw.use) \
    $(eval $(OBJ)/$(i): MORELIBS := $(FFTWOBJ) $(FFTWLIBS)))

# vp_program of tools/NAME.c is vp_program_NAME; common/app/main.c finds it
$(OBJ)/programs.h: FORCE
	@mkdir -p $(@D) && { echo '$(PROGRAMS)' | cmp -s - $@ || echo '$(PROGRAMS)' >$@; }
$(OBJ)/common/app/main.o: $(OBJ)/programs.h
$(OBJ)/tools/%.o: tools/%.c Makefile
	$(call say,CC,$<)mkdir -p $(@D) && $(CC) $(ALLCFLAGS) -Dvp_program=vp_program_$(subst -,_,$*) -MMD -MP -MT $@ -c -o \
	    $@ $<
$(OBJ)/bin/voxpipe: $(patsubst %,$(OBJ)/tools/%.o,$(filter-out $(SECOND),$(TOOLS)))
$(OBJ)/bundle/voxpipe: $(patsubst %,$(OBJ)/tools/%.o,$(filter-out $(BUNDLE2),$(TOOLS)))
$(OBJ)/bin/img-convolve $(OBJ)/bundle/img-convolve: $(WITHFFTW:%=$(OBJ)/tools/%.o)
# Programs of a bundle find its libraries beside them. Others do not search there: files beside a copy may be anyone's.
$(OBJ)/bundle/%: RPATH := -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/../lib/voxpipe'
link_tools = $(call say,LD,$@)mkdir -p $(@D) && $(CC) $(LINKFLAGS) -o $@ $(filter $(OBJ)/tools/%.o,$^) $(LIB) \
    $(LDFLAGS) $(GOMP) $(RPATH) $(MORELIBS) $(LIBS)
# two rules: one with two patterns would make both with one command
$(OBJ)/bin/%: $(LIB) $(OBJ)/fftw.use
	$(link_tools)
$(OBJ)/bundle/%: $(LIB) $(OBJ)/fftw.use
	$(link_tools)
$(OBJ)/unit/docs_test: $(OBJ)/docs/man.o $(OBJ)/docs/completions.o
$(OBJ)/unit/opt_test: $(OBJ)/docs/check.o
$(OBJ)/unit/plans_test: $(patsubst %.c,$(OBJ)/%.o,$(wildcard tests/plans/*.c))
$(OBJ)/unit/%: $(OBJ)/tests/unit/%.o $(LIB)
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) $(LINKFLAGS) -o $@ $(filter-out $(OBJ)/fftw/%,$(filter %.o,$^)) $(LIB) \
	    $(LDFLAGS) $(GOMP) $(MORELIBS) $(LIBS)
$(OBJ)/bench/%: $(OBJ)/tests/bench/%.o $(LIB)
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) $(LINKFLAGS) -o $@ $< $(LIB) $(LDFLAGS) $(GOMP) $(MORELIBS) $(BENCHLIBS) \
	    $(LIBS)
$(OBJ)/replay/%: $(OBJ)/tests/fuzz/%_fuzz.o $(OBJ)/tests/fuzz/fuzz.o $(OBJ)/tests/fuzz/replay.o $(LIB)
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) $(LINKFLAGS) -o $@ $(filter %.o,$^) $(LIB) $(LDFLAGS) $(GOMP) $(LIBS)
$(OBJ)/fuzzer/%: $(OBJ)/tests/fuzz/%_fuzz.o $(OBJ)/tests/fuzz/fuzz.o $(LIB)
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) $(LINKFLAGS) -fsanitize=fuzzer -o $@ $(filter %.o,$^) $(LIB) $(LDFLAGS) \
	    $(GOMP) $(LIBS)
# a preloaded library: without the programs' flags
$(O)/fault/fault.so: tests/fault/fault.c Makefile
	$(call say,CC,$<)mkdir -p $(@D) && $(CC) -std=gnu11 $(WARN) -O1 -fPIC -shared -o $@ $< -ldl
# replaces voxpipe-cuda.so in tests, with pretended devices
$(O)/pretend/voxpipe-cuda.so: $(OBJ)/tests/plugin/plugin.o $(LIB)
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) $(ALLCFLAGS) -shared -o $@ $^ $(LDFLAGS) -Wl,--exclude-libs,ALL -lpthread -lm
# and with emulated ones: the plugin's own sources, run by the CPU (tests/emulate). Rounds as nvcc does: fused
# operations are explicit.
EMULATED := $(if $(SAN),,$(if $(filter x86_64,$(shell uname -m)),$(PLUGIN:%=$(O)/emulated/voxpipe-cuda.so) \
                                                                $(PLUGIN:%=$(O)/emulated/emulate_test)))
EMUDIR   := $(OBJ)/emulated
EMUOBJ   := $(patsubst %,$(EMUDIR)/%.o,$(sort $(wildcard cuda/*.cu cuda/*.c))) $(EMUDIR)/emulate.o
EMUFLAGS = -O1 -fPIC -fopenmp -fvisibility=hidden -ffp-contract=off -march=native -w -Wno-psabi -I$(EMUDIR)/cuda \
    -Icommon -I$(OBJ) \
           -Itests/emulate $(addprefix -I,$(filter-out /usr/include,$(CUDAROOT)/include))
EMUTEXT  := $(patsubst %,$(EMUDIR)/%,$(wildcard cuda/*))
$(EMUDIR)/cuda/%: cuda/% tests/emulate/translate.pl
	@mkdir -p $(@D) && perl tests/emulate/translate.pl $< >$@.tmp && mv -f $@.tmp $@
$(EMUDIR)/cuda/%.cu.o: $(EMUDIR)/cuda/%.cu Makefile | $(EMUTEXT)
	$(call say,EMU,cuda/$*.cu)$(CXX) -std=c++17 $(EMUFLAGS) -fno-strict-aliasing -include emulate.h -MMD -MP -x c++ -c -o \
	    $@ $<
$(EMUDIR)/cuda/%.c.o: $(EMUDIR)/cuda/%.c Makefile | $(EMUTEXT)
	$(call say,EMU,cuda/$*.c)$(CC) -std=gnu11 $(EMUFLAGS) -MMD -MP -c -o $@ $<
$(EMUDIR)/%.o: tests/emulate/%.cpp Makefile
	$(call say,EMU,$<)mkdir -p $(@D) && $(CXX) -std=c++17 $(EMUFLAGS) -MMD -MP -c -o $@ $<
$(EMUDIR)/cuda/device.c.o: $(OBJ)/build.h
$(O)/emulated/voxpipe-cuda.so: $(EMUOBJ) $(LIB)
	$(call say,LD,$@)mkdir -p $(@D) && $(CXX) -shared -fopenmp -o $@.tmp $^ -Wl,--exclude-libs,ALL -Wl,--no-undefined \
	    -lpthread -lm && mv -f $@.tmp $@
$(O)/emulated/emulate_test: $(EMUDIR)/emulate_test.o $(EMUDIR)/emulate.o
	$(call say,LD,$@)mkdir -p $(@D) && $(CXX) -o $@ $^ -lpthread
$(MAINS:%=$(BIN)/%): $(BIN)/%: $(OBJ)/bin/% $(O)/flags
	@mkdir -p $(@D) && cp -f $< $@.tmp && mv -f $@.tmp $@
links: $(MAINS:%=$(BIN)/%)
	@$(call links,$(BIN),$(SECOND))
$(patsubst %,$(BIN)/%,$(filter-out $(MAINS),$(TOOLS))): links ;

# The generator of man pages and completions, for `make docs` and the tests, never installed
DOCS    := $(O)/docs/generate
DOCSOBJ := $(patsubst %.c,$(OBJ)/%.o,$(wildcard docs/*.c))
DOCSFLAGS = -O0 -U_FORTIFY_SOURCE -Idocs -DVP_RELEASE='"$(shell cat VERSION)"'
$(OBJ)/docs/%.o: docs/%.c $(OBJ)/programs.h Makefile VERSION
	$(call say,CC,$<)mkdir -p $(@D) && $(CC) $(ALLCFLAGS) $(DOCSFLAGS) -MMD -MP -MT $@ -c -o $@ $<
$(DOCS): $(DOCSOBJ) $(TOOLS:%=$(OBJ)/tools/%.o) $(LIB) $(O)/flags
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) $(LINKFLAGS) -o $@.tmp $(filter-out $(O)/flags,$^) $(LDFLAGS) $(GOMP) \
	    $(LIBS) && mv -f $@.tmp $@

# Changes if the flags do, so that bin/ is always the latest build.
$(O)/flags: FORCE
	@mkdir -p $(@D) && { echo '$(HASH) $(GPUHASH)' | cmp -s - $@ || echo '$(HASH) $(GPUHASH)' >$@; }
FORCE:

## unit: build the C unit tests and the generator of man pages and completions
unit: $(UNIT:%=$(OBJ)/unit/%) $(DOCS)
	@mkdir -p $(O)/unit && for f in $(UNIT:%=$(OBJ)/unit/%); do cp -f $$f $(O)/unit/; done

# Fuzz targets that replay their corpus, and the library that makes system calls fail.
tests: $(FUZZ:%=$(OBJ)/replay/%) $(O)/fault/fault.so $(O)/pretend/voxpipe-cuda.so $(EMULATED)
	@mkdir -p $(O)/replay && for f in $(filter $(OBJ)/%,$^); do cp -f $$f $(O)/replay/; done

## check: build and run every test (needs bats); the last line counts them
check: all unit tests
	@sh tests/check.sh "$(abspath $(O))"

## fuzz: run libFuzzer on all code that reads foreign bytes, TIME=60 seconds for each target (needs clang)
TIME    ?= 60
FUZZCC  ?= clang
fuzz:
	$(MAKE) O=$(O)/fuzz CC='$(FUZZCC)' CUDA=0 MPI=0 SAN=address,undefined,fuzzer-no-link CFLAGS='-O1 -g' fuzzers
	sh tests/fuzz/run.sh $(O)/fuzz $(TIME)
fuzzers: $(FUZZ:%=$(OBJ)/fuzzer/%)
	@mkdir -p $(O)/bin && for f in $^; do cp -f $$f $(O)/bin/; done

## check-faults: let every system call and allocation of programs and ranks fail in turn (an hour), or FAULTS=8 of each
check-faults: all tests
	perl tests/fault/run.pl $(O) $(or $(FAULTS),0)
	$(if $(RANKS),perl tests/fault/run.pl $(O) $(or $(FAULTS),0) ranks)

## check-isa: every test with AVX2 only, and with neither AVX2 nor AVX-512
check-isa: all unit tests
	VOXPIPE_ISA=avx2 sh tests/check.sh "$(abspath $(O))"
	VOXPIPE_ISA=generic sh tests/check.sh "$(abspath $(O))"

## demo: reconstruct the real scan in tests/data and make a picture (build/demo/slice.png)
demo: all
	@PATH="$(abspath $(BIN)):$$PATH" sh examples/demo.sh $(O)/demo

## bench: measure speed, as ratios in one run (needs FFTW; other peers are used if installed)
bench: all $(BENCH:%=$(OBJ)/bench/%)
	@mkdir -p $(O)/bench && for f in $(BENCH); do cp -f $(OBJ)/bench/$$f $(O)/bench/; done
	@PATH="$(abspath $(BIN)):$$PATH" sh tests/bench/run.sh "$(abspath $(O))"

## rates: measure the table of common/engine/rates.h on this machine (files in $TMPDIR)
$(OBJ)/bench/rates: BENCHLIBS :=
rates: $(OBJ)/bench/rates links $(PLUGIN)
	@$(if $(PLUGIN),VOXPIPE_PLUGINS="$(abspath $(dir $(PLUGIN)))") PATH="$(abspath $(BIN)):$$PATH" $<

## model: rates of this machine, to model.txt for --model and to rates.txt for VOXPIPE_RATES: make model [RANKS_N=2] [DEVICE=auto] [DIR=folder]
RANKS_N ?= 1
$(OBJ)/bench/model $(OBJ)/bench/convolve_model: BENCHLIBS :=
model: $(OBJ)/bench/model $(OBJ)/bench/convolve_model $(OBJ)/bench/rates links $(PLUGINS)
	@VOXPIPE_PLUGINS="$(abspath $(O))/lib/voxpipe" $(if $(filter-out 1,$(RANKS_N)),mpirun -n $(RANKS_N)) $< \
	    $(or $(DEVICE),auto) $(DIR) >model.txt
	@$(OBJ)/bench/convolve_model rates >>model.txt
	@VOXPIPE_PLUGINS="$(abspath $(O))/lib/voxpipe" PATH="$(abspath $(BIN)):$$PATH" $(OBJ)/bench/rates model $(DIR) >rates.txt
	@cat model.txt

## pairs: speed of whole commands against another build: make pairs BEFORE=DIR_OF_ITS_PROGRAMS [PAIRS='--device cuda']
pairs: all
	@bash tests/bench/pairs.sh "$(BEFORE)" "$(abspath $(BIN))" $(PAIRS)

## docs: regenerate man pages and completions from the option tables, and docs/manual from the man pages (committed;
## tests compare them)
docs: $(DOCS)
	@$(DOCS) .
	@perl docs/markdown.pl man docs/manual

INSTALL_PROGRAM ?= install
MAN1 = $(wildcard man/*.1)
MAN5 = $(wildcard man/*.5)
MAN7 = $(wildcard man/*.7)
# Those that work outside of this tree. README.md shows pictures of them.
DOCUMENTS = README.md CHANGELOG.md SECURITY.md LICENSE docs/performance.md
EXAMPLES  = $(wildcard examples/cluster/* examples/octave/* examples/pictures/* examples/python/*.py examples/python/*.md)

## install-strip: the same without symbols
install-strip:
	$(MAKE) install INSTALL_PROGRAM='install -s --strip-program=$(STRIP)'

## install: into $(DESTDIR)$(PREFIX): programs, man pages, completions, documents, examples
install: all install-data
	install -d "$(DESTDIR)$(BINDIR)"
	$(INSTALL_PROGRAM) -m 755 $(MAINS:%=$(BIN)/%) "$(DESTDIR)$(BINDIR)"
	$(call links,$(DESTDIR)$(BINDIR),$(SECOND))
	$(if $(strip $(PLUGINS)),install -d "$(DESTDIR)$(LIBDIR)" && \
	    $(INSTALL_PROGRAM) -m 755 $(PLUGINS) "$(DESTDIR)$(LIBDIR)")

# All that is the same on every machine, for bundles, too
install-data:
	install -d "$(DESTDIR)$(MANDIR)/man1" "$(DESTDIR)$(MANDIR)/man5" "$(DESTDIR)$(MANDIR)/man7" \
	    "$(DESTDIR)$(BASHCOMPDIR)" "$(DESTDIR)$(ZSHCOMPDIR)" "$(DESTDIR)$(FISHCOMPDIR)"
	install -m 644 $(MAN1) "$(DESTDIR)$(MANDIR)/man1"
	install -m 644 $(MAN5) "$(DESTDIR)$(MANDIR)/man5"
	install -m 644 $(MAN7) "$(DESTDIR)$(MANDIR)/man7"
	for f in $(DOCUMENTS) $(EXAMPLES); do install -d "$(DESTDIR)$(DOCDIR)/$$(dirname $$f)" && \
	    install -m 644 $$f "$(DESTDIR)$(DOCDIR)/$$f" || exit 1; done
	for t in $(TOOLS); do \
	    install -m 644 completions/bash/$$t "$(DESTDIR)$(BASHCOMPDIR)/$$t" && \
	    install -m 644 completions/zsh/_$$t "$(DESTDIR)$(ZSHCOMPDIR)/_$$t" && \
	    install -m 644 completions/fish/$$t.fish "$(DESTDIR)$(FISHCOMPDIR)/$$t.fish" || exit 1; done

BUNDLE ?= bundle
STRIP  ?= strip
## bundle: a folder that runs on another Linux machine without root: programs, plugin, libraries, notices, man pages
bundle: all $(patsubst %,$(OBJ)/bundle/%,voxpipe $(firstword $(BUNDLE2)))
	@$(call links,$(OBJ)/bundle,$(BUNDLE2))
	@MAKEFLAGS= CC='$(CC)' STRIP='$(STRIP)' sh packaging/bundle.sh $(BUNDLE) $(OBJ)/bundle $(PLUGIN) $(CONTAINER)
	@echo "$(BUNDLE): $$(du -sh $(BUNDLE) | cut -f1); run $(BUNDLE)/bin/ct-fdk --help"

## uninstall: remove what install created, and folders that are empty then
STANDARD := $(if $(filter /usr /usr/local,$(PREFIX)),$(if $(DESTDIR),,1))
uninstall:
	for t in $(TOOLS); do rm -f "$(DESTDIR)$(BINDIR)/$$t" "$(DESTDIR)$(BASHCOMPDIR)/$$t" \
	    "$(DESTDIR)$(ZSHCOMPDIR)/_$$t" "$(DESTDIR)$(FISHCOMPDIR)/$$t.fish"; done
	rm -f "$(DESTDIR)$(LIBDIR)/voxpipe-cuda.so" "$(DESTDIR)$(LIBDIR)/voxpipe-mpi.so" \
	    "$(DESTDIR)$(LIBDIR)/voxpipe-hdf5.so"
	for f in $(DOCUMENTS) $(EXAMPLES); do rm -f "$(DESTDIR)$(DOCDIR)/$$f"; done
	for m in $(MAN1) $(MAN5) $(MAN7); do rm -f "$(DESTDIR)$(MANDIR)/man$${m##*.}/$${m##*/}"; done
	for d in "$(LIBDIR)" $(patsubst %/,"$(DOCDIR)/%",$(filter-out ./,$(sort $(dir $(DOCUMENTS) $(EXAMPLES))))) "$(BASHCOMPDIR)" "$(ZSHCOMPDIR)" "$(FISHCOMPDIR)" "$(MANDIR)/man1" "$(MANDIR)/man5" \
	    "$(MANDIR)/man7" "$(BINDIR)"; do \
	    while case "$$d" in "$(PREFIX)"/*$(if $(STANDARD),/*) | $(if $(STANDARD),--,"$(PREFIX)")) true;; *) false;; esac && \
	        { rmdir "$(DESTDIR)$$d" 2>/dev/null || [ ! -e "$(DESTDIR)$$d" ]; }; do d=$${d%/*}; done; \
	done; true

## sanitize: build into build/san with address and undefined sanitizers and run every test there
sanitize:
	$(MAKE) O=$(O)/san SAN=address,undefined WERROR=1 CFLAGS='-O1 -g' check

## tsan: the unit tests and the programs under the thread sanitizer, in build/tsan (needs clang with libomp)
TSANCC  ?= clang
tsan:
	$(MAKE) O=$(O)/tsan CC='$(TSANCC)' CUDA=0 SAN=thread CFLAGS='-O1 -g' all unit
	sh tests/tsan.sh "$(abspath $(O)/tsan)"

## clean: remove the build directory
clean:
	rm -rf $(O)

## help: this list
help:
	@sed -n 's/^## \([a-z-]*\): /\1\t/p' $(firstword $(MAKEFILE_LIST)) | sort | awk -F'\t' \
	    '{ printf "  make %-13s %s\n", $$1, $$2 }'
	@echo
	@echo '  O=DIR CUDA=auto|0|1 MPI=auto|0|1 HDF5=auto|0|1 FFTW=auto|0|1 CC=gcc CFLAGS=-O3 HARDEN=1|0 CPPFLAGS= LDFLAGS=' \
	    'PREFIX=/usr/local DESTDIR= SAN=address,undefined WERROR=1 V=1'

.PHONY: FORCE all links unit tests check fuzz fuzzers check-faults check-isa tsan demo bench rates model pairs docs install install-data \
    install-strip bundle uninstall sanitize clean help
.SECONDARY:

-include $(shell find $(OBJ) -name '*.d' 2>/dev/null)
