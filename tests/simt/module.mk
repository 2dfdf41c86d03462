# SPDX-License-Identifier: Apache-2.0
#
# module.mk - libsimt.so, disttrain-cuda.so and test_simt (GNU make)
#
# Everything is compiled into tests/simt/built, with the name of its source: the
# sources of the module have other objects where there is CUDA.

SIMT = $(top_srcdir)/tests/simt
simt_built = tests/simt/built

simt_sources = \
	tests/simt/blas.c \
	tests/simt/blas_matmul.c \
	tests/simt/copy.c \
	tests/simt/cudnn.c \
	tests/simt/cudnn_run.c \
	tests/simt/device.c \
	tests/simt/event.c \
	tests/simt/fiber.c \
	tests/simt/gemm.c \
	tests/simt/graph.c \
	tests/simt/kernel.c \
	tests/simt/memory.c \
	tests/simt/nccl.c \
	tests/simt/nccl_net.c \
	tests/simt/nccl_operation.c \
	tests/simt/shared.c \
	tests/simt/stream.c \
	# End of simt_sources
simt_objects = $(simt_sources:%=$(simt_built)/%.o)
simt_module_objects = $(patsubst %,$(simt_built)/%.o, \
	$(filter %.c %.cc %.cu,$(cuda_sources) $(simt_nccl)))

# The headers of CUDA come first; cuDNN is always there.
SIMT_CPPFLAGS = -I$(simt_built) -I$(top_srcdir)/runtime -I$(SIMT) \
	-isystem $(SIMT)/include $(CMOCKA_CFLAGS) $(CPPFLAGS) -fPIC -MD -MP
SIMT_CFLAGS = $(DT_CFLAGS) $(CFLAGS)
# What nvcc allows, and functions that are called as a struct; an access that is
# not aligned ends the process.
SIMT_CXXFLAGS = $(DT_CXXFLAGS) $(CXXFLAGS) -Wno-unknown-pragmas \
	-Wno-shadow -fno-strict-aliasing -fsanitize=alignment \
	-fsanitize-undefined-trap-on-error

$(simt_built)/config.h: config.h
	$(AM_V_GEN)$(MKDIR_P) $(@D) && { \
		sed /HAVE_CUDNN/d config.h && echo '#define HAVE_CUDNN 1'; \
	} >$@

$(simt_built)/tests/simt/%.c.o: tests/simt/%.c $(simt_built)/config.h
	$(AM_V_CC)$(MKDIR_P) $(@D) && \
	$(CC) $(SIMT_CPPFLAGS) $(SIMT_CFLAGS) -c -o $@ $<

$(simt_built)/runtime/%.c.o: runtime/%.c $(simt_built)/config.h
	$(AM_V_CC)$(MKDIR_P) $(@D) && $(CC) $(SIMT_CPPFLAGS) $(SIMT_CFLAGS) \
		-fvisibility=hidden -c -o $@ $<

$(simt_built)/runtime/%.cc.o: runtime/%.cc $(simt_built)/config.h
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(CXX) $(SIMT_CPPFLAGS) $(AM_CXXFLAGS) \
		$(CXXFLAGS) -fvisibility=hidden -c -o $@ $<

# Shared memory of templates goes to the section of the others.
simt_shared = s/^[ \t]*\.comm[ \t]*\(_ZZ[^,]*\),\([0-9]*\),256$$/\
	.pushsection simt_shared,"aw",@progbits; .balign 256; \1: .zero \2; \
	.popsection/

$(simt_built)/%.cu.o: %.cu $(simt_built)/config.h
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(CXX) $(SIMT_CPPFLAGS) $(SIMT_CXXFLAGS) \
		-fvisibility=hidden -MF $(@:.o=.d) -MT $@ -x c++ -S -o $@.s $< && \
	sed '$(simt_shared)' $@.s >$@.shared.s && \
	$(CXX) -c -o $@ $@.shared.s && rm -f $@.s $@.shared.s

tests/simt/libsimt.so: $(simt_objects)
	$(AM_V_CCLD)$(CC) -shared -Wl,-Bsymbolic-functions $(CFLAGS) $(LDFLAGS) \
		-o $@ $(simt_objects) -lm

simt_link = $(CXX) $(CXXFLAGS) $(DT_LDFLAGS) $(LDFLAGS) -o $@ \
	$(filter %.o,$^) -Ltests/simt -lsimt -Wl,-rpath,'$$ORIGIN' $(LIBS)

tests/simt/disttrain-cuda.so: $(simt_module_objects) tests/simt/libsimt.so
	$(AM_V_CXXLD)$(simt_link) -shared $(GLOO_LIBS) \
		-Wl,--version-script=$(top_srcdir)/runtime/backend/module.map

simt_test_objects = $(simt_built)/tests/simt/test_simt.cu.o \
	$(simt_built)/tests/simt/test_shared.cu.o \
	$(simt_built)/tests/simt/test_stream.cu.o \
	$(simt_built)/tests/simt/test_gemm.c.o

tests/simt/test_simt: $(simt_test_objects) tests/simt/libsimt.so
	$(AM_V_CXXLD)$(simt_link) $(CMOCKA_LIBS)

simt-clean:
	rm -rf $(simt_built) tests/simt/test_simt
.PHONY: simt-clean

-include $(simt_objects:.o=.d) $(simt_module_objects:.o=.d) \
	$(simt_test_objects:.o=.d)
