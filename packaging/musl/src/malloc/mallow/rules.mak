# SPDX-License-Identifier: MIT
#
# How musl compiles Mallow: in its own dialect, with the headers that a program sees, and with those of
# the compiler behind them (musl has no stdatomic.h). MALLOW_MODE 1 is the secure build, which finds what
# musl's own malloc finds and more; 0 the fast build with guarded metadata.

MALLOW_MODE = 1
MALLOW_DIR = $(srcdir)/src/malloc/mallow
MALLOW_OBJS = obj/src/malloc/mallow/mallow.o obj/src/malloc/mallow/mallow.lo
MALLOW_SOURCES = $(wildcard $(MALLOW_DIR)/core/include/* $(MALLOW_DIR)/core/src/*.c $(MALLOW_DIR)/core/src/*/*)

$(MALLOW_OBJS): $(MALLOW_SOURCES)
$(MALLOW_OBJS): CFLAGS_ALL = -nostdinc -ffreestanding \
	-I$(srcdir)/arch/$(ARCH) -I$(srcdir)/arch/generic -Iobj/include -I$(srcdir)/include \
	-idirafter $(shell $(CC) -print-file-name=include) \
	$(CPPFLAGS) $(CFLAGS_AUTO) $(CFLAGS) \
	-std=gnu17 -O2 -fvisibility=hidden -fno-builtin $(MALLOW_CFLAGS) \
	-DMW_PROFILE=MW_LIBC -DMW_MODE=$(MALLOW_MODE) -DMW_SHARED_OBJECT=0 -w
# Helpers for atomic operations would come from libgcc, whose start calls into the libc.
obj/src/malloc/mallow/mallow.o obj/src/malloc/mallow/mallow.lo: CFLAGS_ALL += $(if $(filter aarch64,$(ARCH)),-mno-outline-atomics)
obj/src/malloc/mallow/mallow.lo: CFLAGS_ALL += -fPIC
