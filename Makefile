# nbd-raidd: `make` builds everything into build/. `make help` lists the targets.
#
# V=1 shows the commands. SAN=1 builds with ASan+UBSan into build-san/, TSAN=1 with
# ThreadSanitizer into build-tsan/. DEVELOPER=1 (default in a git checkout) makes warnings errors.
# configure is optional and only writes config.mak, which is read below.

-include config.mak

prefix ?= /usr/local
sbindir ?= $(prefix)/sbin
mandir ?= $(prefix)/share/man
docdir ?= $(prefix)/share/doc/nbd-raidd
sysconfdir ?= $(if $(filter /usr,$(prefix)),/etc,$(prefix)/etc)
unitdir ?= $(prefix)/lib/systemd/system
INSTALL ?= install
PKG_CONFIG ?= pkg-config

VERSION := 0.1.0
DEVELOPER ?= $(if $(wildcard .git),1,)

ifdef SAN
B := build-san
SANFLAGS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
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
LDBASE := -pthread $(SANFLAGS)

ifneq ($(V),1)
Q := @
say = @printf '  %-7s %s\n' '$(1)' '$(2)';
endif

# ---- sources ---------------------------------------------------------------------------------
RAID_SRC := $(wildcard raid/base/*.c raid/*.c)
SIM_SRC := $(wildcard raid/sim/*.c)
# Programs of server/ are their main file, what is listed for them, and libraid.
CTL_MAIN := $(wildcard server/ctl_*.c)
DAEMON_MAIN := $(wildcard server/main.c)
SERVER_SRC := $(filter-out $(DAEMON_MAIN) $(CTL_MAIN),$(wildcard server/*.c))
RAID_TESTS := $(patsubst raid/tests/%.c,%,$(wildcard raid/tests/test_*.c))
SERVER_TESTS := $(patsubst server/tests/%.c,%,$(wildcard server/tests/test_*.c))
RAID_FUZZ := $(patsubst raid/fuzz/%.c,%,$(wildcard raid/fuzz/fuzz_*.c))
SERVER_FUZZ := $(patsubst server/fuzz/%.c,%,$(wildcard server/fuzz/fuzz_*.c))
CLIENT_PROGS := $(patsubst client-tests/%.c,%,$(wildcard client-tests/*.c))

obj = $(patsubst %.c,$(B)/obj/%.o,$(1))
simobj = $(patsubst %.c,$(B)/obj-sim/%.o,$(1))

LIBRAID := $(B)/libraid.a
LIBSERVER := $(B)/libserver.a

SERVER_PKGS := liburing libevent_core libconfuse jansson blkid
SERVER_LIBS = $(shell $(PKG_CONFIG) --libs $(SERVER_PKGS))
CMOCKA_LIBS = $(shell $(PKG_CONFIG) --libs cmocka)
LIBNBD_LIBS = $(shell $(PKG_CONFIG) --libs libnbd)

PROGRAMS := $(if $(DAEMON_MAIN),$(B)/nbd-raidd) $(if $(CTL_MAIN),$(B)/nbd-raidctl) $(if $(SIM_SRC),$(B)/raid-sim)
TESTS := $(addprefix $(B)/tests/raid-,$(RAID_TESTS)) $(addprefix $(B)/tests/server-,$(SERVER_TESTS))
FUZZERS := $(addprefix $(B)/fuzz/,$(RAID_FUZZ) $(SERVER_FUZZ))
CLIENTS := $(addprefix $(B)/client-tests/,$(CLIENT_PROGS))

.PHONY: all tests help clean
.DELETE_ON_ERROR:
.SECONDARY:
.DEFAULT_GOAL := all

all: $(PROGRAMS)
tests: $(TESTS) $(FUZZERS) $(CLIENTS)

# ---- rules -----------------------------------------------------------------------------------
$(B)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(BASEFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(B)/obj-sim/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$< (sim))$(CC) $(BASEFLAGS) -DRAID_MARKS $(CFLAGS) -MMD -MP -c -o $@ $<

$(LIBRAID): $(call obj,$(RAID_SRC))
	$(call say,AR,$@)rm -f $@ && $(AR) rcs $@ $^

$(LIBSERVER): $(call obj,$(SERVER_SRC))
	$(call say,AR,$@)rm -f $@ && $(AR) rcs $@ $^

$(B)/nbd-raidd: $(call obj,$(DAEMON_MAIN)) $(LIBSERVER) $(LIBRAID)
	$(call say,LD,$@)$(CC) $(LDBASE) $(LDFLAGS) -o $@ $^ $(SERVER_LIBS)

$(B)/nbd-raidctl: $(call obj,$(CTL_MAIN)) $(LIBSERVER) $(LIBRAID)
	$(call say,LD,$@)$(CC) $(LDBASE) $(LDFLAGS) -o $@ $^ $(SERVER_LIBS)

$(B)/raid-sim: $(call simobj,$(SIM_SRC) $(RAID_SRC))
	$(call say,LD,$@)$(CC) $(LDBASE) $(LDFLAGS) -o $@ $^

$(B)/tests/raid-%: $(B)/obj/raid/tests/%.o $(LIBRAID)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(LDBASE) $(LDFLAGS) -o $@ $^ $(CMOCKA_LIBS)

$(B)/tests/server-%: $(B)/obj/server/tests/%.o $(LIBSERVER) $(LIBRAID)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(LDBASE) $(LDFLAGS) -o $@ $^ $(SERVER_LIBS) $(CMOCKA_LIBS)

$(addprefix $(B)/fuzz/,$(RAID_FUZZ)): $(B)/fuzz/%: $(B)/obj/raid/fuzz/%.o $(B)/obj/raid/fuzz/driver.o $(LIBRAID)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(LDBASE) $(LDFLAGS) -o $@ $^

$(addprefix $(B)/fuzz/,$(SERVER_FUZZ)): $(B)/fuzz/%: $(B)/obj/server/fuzz/%.o $(B)/obj/raid/fuzz/driver.o $(LIBSERVER) $(LIBRAID)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(LDBASE) $(LDFLAGS) -o $@ $^ $(SERVER_LIBS)

$(B)/client-tests/%: $(B)/obj/client-tests/%.o
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(LDBASE) $(LDFLAGS) -o $@ $^ $(LIBNBD_LIBS)

clean:
	rm -rf build build-san build-tsan

help:
	@sed -n 's/^# target: //p' Makefile

-include $(shell find $(B)/obj $(B)/obj-sim -name '*.d' 2>/dev/null)
