// SPDX-License-Identifier: MIT

// apk-install FOLDER MACHINE ROOT NAME ...: installs packages of FOLDER/MACHINE, which it writes an index of,
// into an empty ROOT, as apk would: by what they say of each other. Prints what is installed then.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/chainguard-dev/go-apk/pkg/apk"
	"github.com/chainguard-dev/go-apk/pkg/fs"
)

func writeIndex(ctx context.Context, folder string) (string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.apk"))
	if err != nil {
		return "", err
	}
	index := &apk.APKIndex{Description: "Mallow"}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return "", err
		}
		found, err := apk.ParsePackage(ctx, file)
		file.Close()
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		index.Packages = append(index.Packages, found)
	}
	archive, err := apk.ArchiveFromIndex(index)
	if err != nil {
		return "", err
	}
	content, err := io.ReadAll(archive)
	if err != nil {
		return "", err
	}
	result := filepath.Join(folder, "APKINDEX.tar.gz")
	return result, os.WriteFile(result, content, 0o644)
}

func install(folder, machine, root string, names []string) error {
	ctx := context.Background()
	index, err := writeIndex(ctx, filepath.Join(folder, machine))
	if err != nil {
		return err
	}
	// They are not signed: who gives them out signs them.
	system, err := apk.New(apk.WithFS(fs.DirFS(root)), apk.WithArch(machine),
		apk.WithIgnoreMknodErrors(true), apk.WithNoSignatureIndexes(index, folder))
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return system.InitDB(ctx) },
		func() error { return system.SetRepositories(ctx, []string{folder}) },
		func() error { return system.SetWorld(ctx, names) },
		func() error { return system.FixateWorld(ctx, nil) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	installed, err := system.GetInstalled()
	for _, found := range installed {
		fmt.Println(found.Name, found.Version)
	}
	return err
}

func main() {
	if len(os.Args) < 5 {
		fmt.Fprintln(os.Stderr, "usage: apk-install FOLDER MACHINE ROOT NAME ...")
		os.Exit(2)
	}
	if err := install(os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, "apk-install:", err)
		os.Exit(1)
	}
}
