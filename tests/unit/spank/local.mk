# SPDX-License-Identifier: Apache-2.0
#
# The plugin's modules, with stubs for the functions of Slurm.
spank_tests = \
	tests/unit/spank/test_facts \
	tests/unit/spank/test_hostlist \
	tests/unit/spank/test_net \
	tests/unit/spank/test_port \
	tests/unit/spank/test_siteconf \
	tests/unit/spank/test_siteenv \
	tests/unit/spank/test_spank_argv \
	tests/unit/spank/test_spank_check \
	tests/unit/spank/test_spank_console \
	tests/unit/spank/test_spank_cpu \
	tests/unit/spank/test_spank_deadline \
	tests/unit/spank/test_spank_exit \
	tests/unit/spank/test_spank_gpu \
	tests/unit/spank/test_spank_limits \
	tests/unit/spank/test_spank_nested \
	tests/unit/spank/test_spank_no_kill \
	tests/unit/spank/test_spank_pmix \
	tests/unit/spank/test_spank_ports \
	tests/unit/spank/test_spank_program \
	tests/unit/spank/test_spank_random \
	tests/unit/spank/test_spank_requeue \
	tests/unit/spank/test_spank_step \
	tests/unit/spank/test_spank_submit \
	# End of spank_tests
check_PROGRAMS += $(spank_tests)
check_LTLIBRARIES = tests/unit/spank/libspankstub.la
tests_unit_spank_libspankstub_la_SOURCES = \
	tests/unit/spank/spank_stub.c \
	tests/unit/spank/spank_stub.h \
	tests/unit/spank/submit_scene.h
tests_unit_spank_libspankstub_la_CPPFLAGS = $(spank_cppflags)
spank_test_libs = spank/libdtspank.la tests/unit/spank/libspankstub.la $(CMOCKA_LIBS)
tests_unit_spank_test_hostlist_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_spank_test_hostlist_LDADD = $(spank_test_libs)
tests_unit_spank_test_facts_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_spank_test_facts_LDADD = $(spank_test_libs)
tests_unit_spank_test_net_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_spank_test_net_LDADD = $(spank_test_libs)
tests_unit_spank_test_port_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_spank_test_port_LDADD = $(spank_test_libs)
tests_unit_spank_test_siteconf_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_spank_test_siteconf_LDADD = $(spank_test_libs)
tests_unit_spank_test_siteenv_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_spank_test_siteenv_LDADD = $(spank_test_libs)
tests_unit_spank_test_spank_argv_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_spank_test_spank_argv_LDADD = $(spank_test_libs)
tests_unit_spank_test_spank_check_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_spank_test_spank_check_LDADD = $(spank_test_libs)
tests_unit_spank_test_spank_console_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_spank_test_spank_console_LDADD = $(spank_test_libs) runtime/libdisttrain.a
tests_unit_spank_test_spank_cpu_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_spank_test_spank_cpu_LDADD = $(spank_test_libs) runtime/libdisttrain.a
# These, and test_spank_pmix, stand in for Slurm's library, where dlsym() looks.
tests_unit_spank_test_spank_deadline_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_spank_test_spank_deadline_LDADD = $(spank_test_libs)
tests_unit_spank_test_spank_deadline_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_unit_spank_test_spank_requeue_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_spank_test_spank_requeue_LDADD = $(spank_test_libs)
tests_unit_spank_test_spank_requeue_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_unit_spank_test_spank_exit_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_spank_test_spank_exit_LDADD = $(spank_test_libs)
tests_unit_spank_test_spank_gpu_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_spank_test_spank_gpu_LDADD = $(spank_test_libs)
tests_unit_spank_test_spank_limits_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_spank_test_spank_limits_LDADD = $(spank_test_libs) runtime/libdisttrain.a
tests_unit_spank_test_spank_nested_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_spank_test_spank_nested_LDADD = $(spank_test_libs)
tests_unit_spank_test_spank_pmix_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_spank_test_spank_pmix_LDADD = $(spank_test_libs) runtime/libdisttrain.a
tests_unit_spank_test_spank_pmix_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
tests_unit_spank_test_spank_ports_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_spank_test_spank_ports_LDADD = $(spank_test_libs)
tests_unit_spank_test_spank_program_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_spank_test_spank_program_LDADD = $(spank_test_libs) runtime/libdisttrain.a
tests_unit_spank_test_spank_random_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_spank_test_spank_random_LDADD = $(spank_test_libs)
tests_unit_spank_test_spank_step_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_spank_test_spank_step_LDADD = $(spank_test_libs)
tests_unit_spank_test_spank_no_kill_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_spank_test_spank_no_kill_LDADD = $(spank_test_libs)
tests_unit_spank_test_spank_submit_CPPFLAGS = $(spank_cppflags) $(CMOCKA_CFLAGS)
tests_unit_spank_test_spank_submit_LDADD = $(spank_test_libs)
