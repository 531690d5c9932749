# SPDX-License-Identifier: MIT
# A Go program whose C part allocates: Go's own objects live in Go's heap, the calls of C in malloc,
# from as many threads as Go likes.
# needs: go cc
# serves: cgo
. "$PROGRAMS/lib.sh"

prepare() {
    mkdir -p source
    cp "$PROGRAMS/cgo.go" source/main.go
    printf 'module cgo\n\ngo 1.18\n' >source/go.mod
    (cd source && CGO_ENABLED=1 GOFLAGS=-mod=mod go build -o ../cgo .)
}

run() {
    under ./cgo
}

"$1"
