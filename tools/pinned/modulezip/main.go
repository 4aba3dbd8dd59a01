// Command modulezip adds a version of a module to a directory that the go command reads as a module proxy, as in
// GOPROXY=file:///srv/proxy, and prints the module's lines of go.sum:
//
//	modulezip -proxy /srv/proxy -path github.com/example/rollcall/client -version v0.1.0 -time 2026-12-01T12:00:00Z client
//
// The zip has the files that the go command would take from a repository: those of the directory, without other modules
// in it.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

func main() {
	proxy := flag.String("proxy", "", "the directory of the proxy")
	path := flag.String("path", "", "the module's path")
	version := flag.String("version", "", "its version, such as v0.1.0")
	at := flag.String("time", "", "the time of the version, in the form of RFC 3339")
	flag.Parse()
	if err := run(*proxy, module.Version{Path: *path, Version: *version}, *at, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "modulezip:", err)
		os.Exit(1)
	}
}

func run(proxy string, m module.Version, at, dir string) error {
	when, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return fmt.Errorf("-time: %w", err)
	}
	if err := module.Check(m.Path, m.Version); err != nil {
		return err
	}
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	base := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	goMod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{m.Version, when})
	if err != nil {
		return err
	}
	archive := filepath.Join(base, m.Version+".zip")
	err = errors.Join(
		os.MkdirAll(base, 0o755),
		os.WriteFile(filepath.Join(base, "list"), []byte(m.Version+"\n"), 0o644),
		os.WriteFile(filepath.Join(base, m.Version+".info"), info, 0o644),
		os.WriteFile(filepath.Join(base, m.Version+".mod"), goMod, 0o644),
	)
	if err != nil {
		return err
	}
	if err := writeZip(archive, m, dir); err != nil {
		return err
	}
	return printSums(os.Stdout, m, archive, filepath.Join(dir, "go.mod"))
}

func writeZip(path string, m module.Version, dir string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(zip.CreateFromDir(file, m, dir), file.Close())
}

// printSums prints the two lines of go.sum: of the zip, and of the go.mod.
func printSums(w io.Writer, m module.Version, archive, goMod string) error {
	ofZip, err := dirhash.HashZip(archive, dirhash.Hash1)
	if err != nil {
		return err
	}
	ofMod, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) { return os.Open(goMod) })
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s %s %s\n%s %s/go.mod %s\n", m.Path, m.Version, ofZip, m.Path, m.Version, ofMod)
	return err
}
