# SPDX-License-Identifier: MIT
# C++ programs with libmallow.a, static and not: operator new is Mallow's, calls the new-handler and
# throws. A C program takes nothing of C++ from the archive.
# needs: g++
# kind: direct
# modes: fast secure debug
. "$CASES/lib.sh"
need_static_library

# compile NAME FLAG ...: once for all ways to link.
compile() {
    name=$1
    shift
    g++ -std=c++17 -O1 -fno-builtin -pthread -fPIE "$@" -c -o "$name.o"
}

for source in cxx_new late_cxx; do
    compile "$source" -DWITH_MAIN "$CASES/programs/$source.cc"
done
for forms in -DPLAIN "-DPLAIN -DARRAY" -DALIGNED; do
    # shellcheck disable=SC2086
    compile "replaced$forms" $forms "$CASES/programs/cxx_replaced.cc"
done
for how in -static -static-pie -pie; do
    for source in cxx_new late_cxx; do
        g++ -pthread $how -o program "$source.o" "$LIBRARY_STATIC"
        ./program >out || fail "$source with $how: $(tail -n 3 out)"
        [ "$source" != late_cxx ] || grep -qx 0 out || fail "line $(cat out) of late_cxx.cc, $how"
        # A shared library's malloc would be another one.
        nm program | grep -q ' T mw_malloc$' || fail "no Mallow in the program"
    done
    # It may have some forms of its own.
    for forms in -DPLAIN "-DPLAIN -DARRAY" -DALIGNED; do
        g++ $how -o program "replaced$forms.o" "$LIBRARY_STATIC"
        ./program >out || fail "cxx_replaced with $how $forms: $(cat out)"
    done
done
check_self cc -O2 -pthread -static -o program "$CASES/programs/self_check.c" "$LIBRARY_STATIC"
if nm program | grep -q _Znwm; then fail "operator new in a C program"; fi
