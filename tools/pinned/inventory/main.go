// Command inventory says what a binary consists of: an SBOM in the format of CycloneDX, and the licences of
// all modules in it, which must go with a copy of the binary. It reads the modules from the binary itself,
// and the licences from Go's module cache. The same binary always has the same inventory.
//
//	go -C tools/pinned run ./inventory -sbom OUT.cdx.json -licences OUT.txt BINARY
package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/licensecheck"
)

func main() {
	sbom := flag.String("sbom", "", "`file` for the SBOM")
	licences := flag.String("licences", "", "`file` for the licences")
	source := flag.String("source", "..", "`directory` of the binary's main module")
	version := flag.String("version", "", "`version` of the binary")
	flag.Parse()
	if flag.NArg() != 1 || *sbom == "" || *licences == "" || *version == "" {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *source, *version, *sbom, *licences); err != nil {
		fmt.Fprintln(os.Stderr, "inventory:", err)
		os.Exit(1)
	}
}

func run(binary, source, version, sbom, licences string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	parts, err := partsOf(info, source)
	if err != nil {
		return err
	}
	if err := writeSBOM(sbom, info, version, parts); err != nil {
		return err
	}
	return writeLicences(licences, parts)
}

// part is a module in the binary, or Go's standard library.
type part struct {
	path, version string
	texts         []string // its licence files
	ids           []string // SPDX identifiers
}

// partsOf returns what the binary consists of besides our own modules, by path.
func partsOf(info *buildinfo.BuildInfo, source string) ([]part, error) {
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	foreign := slices.DeleteFunc(slices.Clone(info.Deps), func(m *debug.Module) bool { return isOwn(m, info.Main.Path) })
	modules, err := download(source, foreign)
	if err != nil {
		return nil, err
	}
	std := module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go"), Dir: strings.TrimSpace(string(goroot))}
	var parts []part
	for _, m := range append(modules, std) {
		p, err := newPart(m)
		if err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	slices.SortFunc(parts, func(a, b part) int { return strings.Compare(a.path, b.path) })
	return parts, nil
}

// isOwn says that a module is in a directory of the main module's repository, and so under its licence.
func isOwn(m *debug.Module, main string) bool {
	return strings.HasPrefix(m.Path, main+"/") && m.Replace != nil && strings.HasPrefix(m.Replace.Path, "./")
}

// module is a module in Go's module cache, as go mod download prints it.
type module struct{ Path, Version, Dir, Sum string }

// download returns modules of a binary after Go's module cache has them.
func download(source string, modules []*debug.Module) (cached []module, err error) {
	args := []string{"mod", "download", "-json"}
	for _, m := range modules {
		if m.Replace != nil {
			return nil, fmt.Errorf("%s is replaced; build a binary for others without replacements", m.Path)
		}
		args = append(args, m.Path+"@"+m.Version)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Stderr = source, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go mod download: %w", err)
	}
	answers := json.NewDecoder(bytes.NewReader(out))
	for _, m := range modules { // it answers in the order of its arguments
		var found module
		if err := answers.Decode(&found); err != nil {
			return nil, err
		}
		if found.Path != m.Path || found.Sum != m.Sum {
			return nil, fmt.Errorf("%s: the binary was built from another one: %s, not %s %s", m.Path, m.Sum, found.Path, found.Sum)
		}
		cached = append(cached, found)
	}
	return cached, nil
}

// The files that say under which licence a module is, and those that go with its licence.
var (
	legal   = regexp.MustCompile(`(?i)^(licen[cs]e|copying)`)
	notices = regexp.MustCompile(`(?i)^(notice|patents|authors|contributors)`)
)

// newPart reads the licences of a module. A module without a licence that is known must not be shipped.
func newPart(m module) (part, error) {
	p := part{path: m.Path, version: m.Version}
	files, err := os.ReadDir(m.Dir)
	if err != nil {
		return p, err
	}
	for _, f := range files {
		licence, notice := legal.MatchString(f.Name()), notices.MatchString(f.Name())
		if f.IsDir() || !licence && !notice {
			continue
		}
		text, err := os.ReadFile(filepath.Join(m.Dir, f.Name()))
		if err != nil {
			return p, err
		}
		p.texts = append(p.texts, string(text))
		for _, found := range licensecheck.Scan(text).Match {
			if licence && !slices.Contains(p.ids, found.ID) && !found.IsURL {
				p.ids = append(p.ids, found.ID)
			}
		}
	}
	if len(p.ids) == 0 {
		return p, fmt.Errorf("%s %s: no licence that is known in %s", m.Path, m.Version, m.Dir)
	}
	return p, nil
}

// writeSBOM writes the SBOM. It has no serial number and no time, so that it depends on the binary alone.
func writeSBOM(file string, info *buildinfo.BuildInfo, version string, parts []part) error {
	var built []cdx.Property // how
	for _, s := range info.Settings {
		built = append(built, cdx.Property{Name: "go:build:" + s.Key, Value: s.Value})
	}
	b := cdx.NewBOM()
	b.Metadata = &cdx.Metadata{Component: &cdx.Component{
		BOMRef: "rollcall", Type: cdx.ComponentTypeApplication, Name: "rollcall", Version: version,
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}, Properties: &built,
	}}
	var components []cdx.Component
	var refs []string
	for _, p := range parts {
		ref := "pkg:golang/" + p.path + "@" + p.version
		var licences cdx.Licenses
		for _, id := range p.ids {
			licences = append(licences, cdx.LicenseChoice{License: &cdx.License{ID: id}})
		}
		refs = append(refs, ref)
		components = append(components, cdx.Component{
			BOMRef: ref, Type: cdx.ComponentTypeLibrary, Name: p.path, Version: p.version, PackageURL: ref, Scope: cdx.ScopeRequired, Licenses: &licences,
		})
	}
	b.Components = &components
	b.Dependencies = &[]cdx.Dependency{{Ref: "rollcall", Dependencies: &refs}}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	e := cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON)
	return errors.Join(e.SetPretty(true).SetEscapeHTML(false).Encode(b), out.Close())
}

// writeLicences writes the licences of all parts. Those with the same text share it.
func writeLicences(file string, parts []part) error {
	var texts []string
	users := map[string][]string{}
	for _, p := range parts {
		for _, text := range p.texts {
			if users[text] == nil {
				texts = append(texts, text)
			}
			users[text] = append(users[text], p.path+" "+p.version)
		}
	}
	var b strings.Builder
	b.WriteString("Rollcall contains these modules, under their own licences.\n")
	for _, text := range texts {
		fmt.Fprintf(&b, "\n%s\n\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(users[text], "\n"), strings.TrimSpace(text))
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}
