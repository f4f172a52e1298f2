# nbd-raidd: `make` builds everything into build/. `make help` lists the targets.
#
# V=1 shows the commands. SAN=1 builds with ASan+UBSan into build-san/, TSAN=1 with
# ThreadSanitizer into build-tsan/, FUZZ=1 as SAN and with edge tracing into build-fuzz/.
# DEVELOPER=1 makes warnings errors: the default in a git
# checkout on which configure was not run. configure is optional and only writes config.mak.

-include config.mak

prefix ?= /usr/local
sbindir ?= $(prefix)/sbin
mandir ?= $(prefix)/share/man
docdir ?= $(prefix)/share/doc/nbd-raidd
sysconfdir ?= $(if $(filter /usr,$(prefix)),/etc,$(prefix)/etc)
unitdir ?= $(prefix)/lib/systemd/system
INSTALL ?= install
PKG_CONFIG ?= pkg-config
POD2MAN ?= pod2man

VERSION := 0.1.0
DEVELOPER ?= $(if $(wildcard .git),1,)

ADDRESS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
ifdef SAN
B := build-san
SANFLAGS := $(ADDRESS)
else ifdef FUZZ
B := build-fuzz
SANFLAGS := $(ADDRESS)
TRACE := -fsanitize-coverage=trace-pc
else ifdef TSAN
B := build-tsan
SANFLAGS := -fsanitize=thread -fno-omit-frame-pointer
else
B := build
endif

OPT ?= -O2 -g
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wwrite-strings \
	-Wvla -Wundef -Wformat=2 -Wno-format-nonliteral -Wno-unused-parameter -Wimplicit-fallthrough \
	-Wold-style-definition -Wcast-align=strict
ifeq ($(DEVELOPER),1)
WARN += -Werror
endif
BASEFLAGS := -std=gnu11 -D_GNU_SOURCE -DNBD_RAIDD_VERSION='"$(VERSION)"' -I. -pthread $(OPT) $(WARN) $(SANFLAGS)
LDBASE := -pthread -Wl,--as-needed $(SANFLAGS)

ifneq ($(V),1)
Q := @
say = @printf '  %-7s %s\n' '$(1)' '$(2)';
endif

# ---- sources ---------------------------------------------------------------------------------
RAID_SRC := $(wildcard raid/base/*.c raid/*.c)
SIM_SRC := $(wildcard raid/sim/*.c)
# Programs of server/ are their main file, what is listed for them, and libraid.
CTL_MAIN := $(wildcard server/ctl_*.c)
DAEMON_MAIN := server/main.c
SERVER_SRC := $(filter-out $(DAEMON_MAIN) $(CTL_MAIN),$(wildcard server/*.c))
RAID_TESTS := $(patsubst raid/tests/%.c,%,$(wildcard raid/tests/test_*.c))
SERVER_TESTS := $(patsubst server/tests/%.c,%,$(wildcard server/tests/test_*.c))
RAIDTEST_SRC := $(filter-out raid/tests/test_%,$(wildcard raid/tests/*.c))
RAID_FUZZ := $(patsubst raid/fuzz/%.c,%,$(wildcard raid/fuzz/fuzz_*.c))
SERVER_FUZZ := $(patsubst server/fuzz/%.c,%,$(wildcard server/fuzz/fuzz_*.c))
CLIENT_PROGS := $(patsubst client-tests/%.c,%,$(wildcard client-tests/*.c))

obj = $(patsubst %.c,$(B)/obj/%.o,$(1))
simobj = $(patsubst %.c,$(B)/obj-sim/%.o,$(1))

LIBRAID := $(B)/libraid.a
LIBSERVER := $(B)/libserver.a
RAIDTEST := $(B)/libraidtest.a

RAID_LIBS = $(shell $(PKG_CONFIG) --libs libisal)
SERVER_PKGS := liburing libevent_core libevent_extra libconfuse jansson blkid
SERVER_LIBS = $(shell $(PKG_CONFIG) --libs $(SERVER_PKGS))
RAIDTEST_LIBS = $(shell $(PKG_CONFIG) --libs jansson libcrypto libzstd)
CMOCKA_LIBS = $(shell $(PKG_CONFIG) --libs cmocka)
LIBNBD_LIBS = $(shell $(PKG_CONFIG) --libs libnbd)

PROGRAMS := $(B)/nbd-raidd $(B)/nbd-raidctl $(B)/raid-sim
TESTS := $(addprefix $(B)/tests/raid-,$(RAID_TESTS)) $(addprefix $(B)/tests/server-,$(SERVER_TESTS))
FUZZERS := $(addprefix $(B)/fuzz/,$(RAID_FUZZ) $(SERVER_FUZZ))
CLIENTS := $(addprefix $(B)/client-tests/,$(CLIENT_PROGS))

MAN := $(patsubst conf/%.pod,$(B)/man/%,$(wildcard conf/*.pod))
UNITS := $(patsubst systemd/%.in,$(B)/systemd/%,$(wildcard systemd/*.in))
EXAMPLE := conf/nbd-raidd.conf

.PHONY: all tests unit check lint fuzz-smoke san-check tsan-check client-test kernel-test foreign-test FORCE
.PHONY: sim sim-check sim-soak breaks power-cut-breaks man install uninstall install-check clean help
.DELETE_ON_ERROR:
.SECONDARY:
.DEFAULT_GOAL := all

# target: all (default)  the programs: nbd-raidd, nbd-raidctl, raid-sim
all: $(PROGRAMS)
# target: tests          unit test programs, fuzzers, client test programs
tests: $(TESTS) $(FUZZERS) $(CLIENTS)

# ---- rules -----------------------------------------------------------------------------------
# Objects depend on the flags they are built with, archives on the list of their sources: a file
# that holds the text given is rewritten only when the text changes.
define remember
@mkdir -p $(@D)
@printf '%s\n' '$(subst ','\'',$(1))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(1))' >$@
endef

$(B)/flags: FORCE
	$(call remember,$(CC) $(BASEFLAGS) $(CFLAGS) $(LDBASE) $(LDFLAGS))

$(B)/sources: FORCE
	$(call remember,$(sort $(RAID_SRC) $(SIM_SRC) $(SERVER_SRC) $(CTL_MAIN) $(RAIDTEST_SRC)))

$(B)/obj/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(BASEFLAGS) $(TRACE) $(CFLAGS) -MMD -MP -c -o $@ $<

$(B)/obj/raid/fuzz/driver.o: TRACE :=

$(B)/obj-sim/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$< (sim))$(CC) $(BASEFLAGS) -DRAID_MARKS $(CFLAGS) -MMD -MP -c -o $@ $<

archive = $(call say,AR,$@)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)
link = $(call say,LD,$@)$(CC) $(LDBASE) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) $(1)

$(LIBRAID): $(call obj,$(RAID_SRC)) $(B)/sources
	$(archive)

$(LIBSERVER): $(call obj,$(SERVER_SRC)) $(B)/sources
	$(archive)

$(B)/nbd-raidd: $(call obj,$(DAEMON_MAIN)) $(LIBSERVER) $(LIBRAID)
	$(call link,$(SERVER_LIBS) $(RAID_LIBS))

$(B)/nbd-raidctl: $(call obj,$(CTL_MAIN)) $(LIBSERVER) $(LIBRAID) $(B)/sources
	$(call link,$(SERVER_LIBS) $(RAID_LIBS))

$(B)/raid-sim: $(call simobj,$(SIM_SRC) $(RAID_SRC)) $(B)/sources
	$(call link,$(RAID_LIBS))

# What tests of raid/ share: the files there that are not test programs themselves.
$(RAIDTEST): $(call obj,$(RAIDTEST_SRC)) $(B)/sources
	$(archive)

$(B)/tests/raid-%: $(B)/obj/raid/tests/%.o $(RAIDTEST) $(LIBRAID)
	@mkdir -p $(@D)
	$(call link,$(RAIDTEST_LIBS) $(RAID_LIBS) $(CMOCKA_LIBS))

$(B)/tests/server-%: $(B)/obj/server/tests/%.o $(LIBSERVER) $(LIBRAID)
	@mkdir -p $(@D)
	$(call link,$(SERVER_LIBS) $(RAID_LIBS) $(CMOCKA_LIBS))

$(addprefix $(B)/fuzz/,$(RAID_FUZZ)): $(B)/fuzz/%: $(B)/obj/raid/fuzz/%.o $(B)/obj/raid/fuzz/driver.o $(LIBRAID)
	@mkdir -p $(@D)
	$(call link,$(RAID_LIBS))

$(addprefix $(B)/fuzz/,$(SERVER_FUZZ)): $(B)/fuzz/%: $(B)/obj/server/fuzz/%.o $(B)/obj/raid/fuzz/driver.o $(LIBSERVER) $(LIBRAID)
	@mkdir -p $(@D)
	$(call link,$(SERVER_LIBS) $(RAID_LIBS))

$(B)/client-tests/%: $(B)/obj/client-tests/%.o
	@mkdir -p $(@D)
	$(call link,$(LIBNBD_LIBS))

# ---- tests -----------------------------------------------------------------------------------
RUN := client-tests/run --build $(B)
# T=text narrows unit, client-test, kernel-test and fuzz-smoke to names that contain it.
PICK = $(if $(T),$(foreach t,$(1),$(if $(findstring $(T),$(notdir $(t))),$(t))),$(1))

# target: check          unit, simulator for 60 s, fuzz smoke, client tests: no root needed
check: all tests
	$(Q)$(MAKE) --no-print-directory unit
	$(Q)$(MAKE) --no-print-directory sim-check
	$(Q)$(MAKE) --no-print-directory fuzz-smoke
	$(Q)$(MAKE) --no-print-directory client-test

# target: unit [T=name]  unit tests (cmocka)
unit: $(call PICK,$(TESTS))
	$(Q)$(RUN) --name unit $^

# target: fuzz-smoke [T=name]   every fuzzer for FUZZ_SECONDS (5), with ASan and UBSan
FUZZ_SECONDS ?= 5
ifdef FUZZ
fuzz-smoke: $(call PICK,$(FUZZERS))
	$(Q)$(RUN) --name fuzz --timeout $$(($(FUZZ_SECONDS) + 60)) --args '-t $(FUZZ_SECONDS)' $^
else
fuzz-smoke:
	$(Q)$(MAKE) --no-print-directory FUZZ=1 fuzz-smoke
endif

# target: client-test [T=name] [LOOPS=n]   libnbd programs and shell tests against the real daemon
CLIENT_TESTS = $(filter $(B)/client-tests/test_%,$(CLIENTS)) $(wildcard client-tests/test-*.sh)
LOOPS ?= 1
client-test: all $(CLIENTS)
	$(Q)LOOPS=$(LOOPS) $(RUN) --name client-loops-$(LOOPS) $(call PICK,$(CLIENT_TESTS))

# target: kernel-test [T=name]   nbd-client, mdadm and ext4 in User-Mode Linux; root
kernel-test: all $(CLIENTS)
	$(Q)$(RUN) --name kernel --timeout 300 $(call PICK,$(wildcard client-tests/kernel/test-*.sh))

# target: foreign-test [T=name]  test suites of nbd and libnbd, from Debian's source packages
foreign-test: all
	$(Q)$(RUN) --name foreign --timeout 600 $(call PICK,$(wildcard client-tests/foreign/test-*.sh))

# target: lint           layering, library containment, sizes, format, cppcheck, shellcheck
lint:
	$(Q).ci/lint
	$(Q)$(RUN) --name lint-test .ci/test-lint

# target: san-check      unit tests and a short simulation under ASan and UBSan
san-check:
	$(Q)$(MAKE) --no-print-directory SAN=1 all tests
	$(Q)$(MAKE) --no-print-directory SAN=1 unit sim-check SECONDS=20

# target: tsan-check     unit tests of the loop and client tests with two loops, ThreadSanitizer
# Not those that look at one thread or at files only, nor those that are the same again at more levels.
TSAN_LEAVES_OUT := $(wildcard $(addprefix client-tests/test-,0* 1* ctl-create* ctl-examine* ctl-claim* ctl-assemble* \
	ctl-zero* golden* power-cut* rebuild-restart* rebuild-readd* rebuild-spare.sh))
TSAN_TESTS := $(filter-out $(TSAN_LEAVES_OUT),$(wildcard client-tests/test-*.sh))
# gcc 12's ThreadSanitizer does not cope with all the address randomisation of newer kernels.
FIXED_ADDRESSES = $(shell setarch -R true 2>/dev/null && echo setarch -R)
tsan-check:
	$(Q)$(MAKE) --no-print-directory TSAN=1 all tests
	$(Q)$(FIXED_ADDRESSES) $(MAKE) --no-print-directory TSAN=1 unit T=loop
	$(Q)$(FIXED_ADDRESSES) $(MAKE) --no-print-directory TSAN=1 client-test LOOPS=2 CLIENT_TESTS='$(TSAN_TESTS)'

# ---- simulator (raid/sim) --------------------------------------------------------------------
JOBS ?= $(shell nproc)
KNOWN_SEEDS = 1000 1199

# target: sim [SEED=N [PROFILE=p] | SECONDS=N]   replay one seed, twice; or fresh seeds for 10 s
sim: $(B)/raid-sim
	$(B)/raid-sim $(if $(SEED),--seed $(SEED),--seconds $(or $(SECONDS),10)) $(if $(PROFILE),--profile $(PROFILE))

# target: sim-check      scenarios, an exact replay, once-failing and known seeds, then fresh ones for SECONDS (60)
# Fresh seeds draw power cuts, commands and damage but no failing members until the profiles that do
# have come through a soak of 100 000 crash-restarts (sim-soak draws all; about one in 10 000 fails
# today). So that a check says something about the change at hand, failing members come from seeds
# that do not change.
sim-check: $(B)/raid-sim
	$(B)/raid-sim --scenarios
	$(B)/raid-sim --seed 1
	$(Q)seq $(KNOWN_SEEDS) | sed 's/$$/ any/' | cat raid/sim/seeds.txt - >$(B)/seeds
	$(B)/raid-sim --seed-list $(B)/seeds --profile calm --jobs $(JOBS) --seconds $(or $(SECONDS),60)

# target: sim-soak       fresh seeds on all cores for SECONDS (600); a mark not reached is a failure
sim-soak: $(B)/raid-sim
	$(B)/raid-sim --seed-list raid/sim/seeds.txt --jobs $(JOBS) --seconds $(or $(SECONDS),600) --marks-required

# target: breaks [T=name]  patches that break one promise each: the simulator must notice every one
breaks: $(B)/raid-sim
	$(Q)raid/sim/breaks/run $(T)

# target: power-cut-breaks  patches that make writes less durable: the power-cut test must fail on every one
power-cut-breaks: all
	$(Q)client-tests/breaks/run

# ---- documents and installation --------------------------------------------------------------
# target: man            man pages from conf/*.pod into build/man
man: $(MAN)

$(B)/man/%: conf/%.pod
	@mkdir -p $(@D)
	$(call say,POD2MAN,$<)$(POD2MAN) --utf8 --errors=die --section=$(patsubst .%,%,$(suffix $*)) \
		--name=$(shell echo $(basename $*) | tr a-z A-Z) --release='nbd-raidd $(VERSION)' --center=nbd-raidd $< $@

# Units name the folders they are installed for.
$(B)/folders: FORCE
	$(call remember,$(sbindir) $(sysconfdir))

$(B)/systemd/%: systemd/%.in $(B)/folders
	@mkdir -p $(@D)
	$(call say,SED,$<)sed -e 's,@sbindir@,$(sbindir),g' -e 's,@sysconfdir@,$(sysconfdir),g' $< >$@

# What goes where: DIRECTORY MODE FILES. An existing configuration file is never touched.
mansect = $(filter %.$(1),$(MAN))
define installed
$(call $(1),$(sbindir),755,$(filter %/nbd-raidd %/nbd-raidctl,$(PROGRAMS)))
$(call $(1),$(mandir)/man8,644,$(call mansect,8))
$(call $(1),$(mandir)/man5,644,$(call mansect,5))
$(call $(1),$(docdir),644,README LICENSE $(EXAMPLE))
$(call $(1),$(unitdir),644,$(UNITS))
endef
define put
$(if $(3),$(INSTALL) -d $(DESTDIR)$(1) && $(INSTALL) -m $(2) $(3) $(DESTDIR)$(1)/)

endef
define take
$(if $(3),rm -f $(addprefix $(DESTDIR)$(1)/,$(notdir $(3))))

endef

# target: install        DESTDIR, prefix (/usr/local), sysconfdir, unitdir … are honoured
install: all man $(UNITS)
	$(call installed,put)
	$(INSTALL) -d $(DESTDIR)$(sysconfdir)
	test -e $(DESTDIR)$(sysconfdir)/nbd-raidd.conf || \
		$(INSTALL) -m 644 $(EXAMPLE) $(DESTDIR)$(sysconfdir)/nbd-raidd.conf

# target: uninstall      takes away what install put there; a changed configuration file stays
uninstall:
	$(call installed,take)
	-rmdir $(DESTDIR)$(docdir)
	if cmp -s $(EXAMPLE) $(DESTDIR)$(sysconfdir)/nbd-raidd.conf; then \
		rm $(DESTDIR)$(sysconfdir)/nbd-raidd.conf; fi

# target: install-check  install and uninstall in an empty folder leave no file
install-check: all man $(UNITS)
	$(Q)$(RUN) --name install .ci/test-install

# target: clean          removes build/ and the other build folders
clean:
	rm -rf build build-san build-tsan build-fuzz

# target: help           this list
help:
	@sed -n 's/^# target: //p' Makefile

FORCE:

-include $(shell find $(B)/obj $(B)/obj-sim -name '*.d' 2>/dev/null)
