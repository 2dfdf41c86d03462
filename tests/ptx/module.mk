# SPDX-License-Identifier: Apache-2.0
#
# module.mk - test_ptx, and tests/ptx/disttrain-cuda.so (GNU make)
#
# The module's kernels and what starts them as nvcc compiled them, the rest of it
# and CUDA's libraries as tests/simt has them.

PTX = $(top_srcdir)/tests/ptx
ptx_built = tests/ptx/built

ptx_sources = \
	tests/ptx/arithmetic.c \
	tests/ptx/census.c \
	tests/ptx/convert.c \
	tests/ptx/launch.c \
	tests/ptx/memory.c \
	tests/ptx/module.c \
	tests/ptx/run.c \
	tests/ptx/shadow.c \
	tests/ptx/warp.c \
	# End of ptx_sources
ptx_objects = $(ptx_sources:%=$(ptx_built)/%.o)
ptx_kernel_objects = $(patsubst %.cu,%.o, \
	$(filter %.cu,$(cuda_sources) $(simt_nccl)))
ptx_module_objects = $(filter-out %.cu.o,$(simt_module_objects))

# Registers are read as other types than they were written as.
$(ptx_built)/%.c.o: %.c $(simt_built)/config.h
	$(AM_V_CC)$(MKDIR_P) $(@D) && $(CC) $(SIMT_CPPFLAGS) $(SIMT_CFLAGS) \
		-O2 -fno-strict-aliasing -ffp-contract=off -fvisibility=hidden \
		-c -o $@ $<

tests/ptx/disttrain-cuda.so: $(ptx_objects) $(ptx_kernel_objects) \
		$(ptx_module_objects) tests/simt/libsimt.so
	$(AM_V_CXXLD)$(CXX) $(CXXFLAGS) $(DT_LDFLAGS) $(LDFLAGS) -shared -o $@ \
		$(filter %.o,$^) -Ltests/simt -lsimt \
		-Wl,-rpath,'$$ORIGIN/../simt' $(GLOO_LIBS) $(ZSTD_LIBS) $(LIBS) \
		-Wl,--version-script=$(top_srcdir)/runtime/backend/module.map

ptx_test_objects = $(ptx_built)/tests/ptx/test_ptx.c.o $(ptx_objects)
tests/ptx/test_ptx: $(ptx_test_objects) tests/simt/libsimt.so
	$(AM_V_CXXLD)$(CXX) $(CXXFLAGS) $(DT_LDFLAGS) $(LDFLAGS) -o $@ \
		$(ptx_test_objects) -Ltests/simt -lsimt \
		-Wl,-rpath,'$$ORIGIN/../simt' $(ZSTD_LIBS) $(CMOCKA_LIBS) $(LIBS)

ptx-clean:
	rm -rf $(ptx_built) tests/ptx/test_ptx
.PHONY: ptx-clean

-include $(ptx_test_objects:.o=.d)
