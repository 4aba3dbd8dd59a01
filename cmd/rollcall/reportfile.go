package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// reportFlag is a flag that names the file of a report. An empty path means that there is no such report.
type reportFlag struct{ name, path string }

// checkReportFiles returns an error if one of the reports cannot be written, or would replace another one.
func checkReportFiles(flags ...reportFlag) error {
	taken := map[string]string{} // the flag of each file
	for _, f := range flags {
		if f.path == "" {
			continue
		}
		if err := checkReportFile(f.path); err != nil {
			return err
		}
		file, special, err := reportTarget(f.path)
		if err != nil {
			return err
		}
		if other, ok := taken[file]; ok && !special {
			return fmt.Errorf("%s and %s name the same file, %s; each report needs a file of its own", other, f.name, file)
		}
		taken[file] = f.name
	}
	return nil
}

// checkReportFile returns an error if a report cannot be written to path. A command that takes minutes calls it before it begins.
func checkReportFile(path string) error {
	path, special, err := reportTarget(path)
	if err != nil || special {
		return err
	}
	part, err := createPart(path)
	if err == nil {
		err = errors.Join(part.Close(), os.Remove(part.Name()))
	}
	if err != nil {
		return fmt.Errorf("no report can be written to %s: %w", path, err)
	}
	return nil
}

// maxReportLinks limits the links that lead from one to the next. Linux follows as many.
const maxReportLinks = 40

// reportTarget returns the file that a report at path replaces or makes. Links are followed, and stay. A pipe or a device,
// such as /dev/stdout, is special: it is written to.
func reportTarget(path string) (target string, special bool, err error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir() || strings.HasSuffix(path, "/"):
		return "", false, fmt.Errorf("%s is a directory; a report needs the name of a file", path)
	case err == nil && !info.Mode().IsRegular():
		return path, true, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", false, err
	}
	if target, err = filepath.Abs(path); err != nil {
		return "", false, err
	}
	for range maxReportLinks {
		dir, err := filepath.EvalSymlinks(filepath.Dir(target))
		if err != nil {
			return "", false, fmt.Errorf("no report can be written to %s: %w", path, err)
		}
		target = filepath.Join(dir, filepath.Base(target))
		next, err := os.Readlink(target)
		if err != nil {
			return target, false, nil // it is a file, or nothing is there yet
		}
		if target = next; !filepath.IsAbs(next) {
			target = filepath.Join(dir, next)
		}
	}
	return "", false, fmt.Errorf("no report can be written to %s: more than %d links lead from one to the next", path, maxReportLinks)
}

// writeReport writes a file as a whole: if it fails, an earlier report stays.
func writeReport(path string, write func(io.Writer) error) error {
	path, special, err := reportTarget(path)
	switch {
	case err != nil:
		return err
	case special:
		return writeSpecial(path, write)
	}
	part, err := createPart(path)
	if err != nil {
		return err
	}
	if err := errors.Join(write(part), part.Close()); err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	if err := os.Rename(part.Name(), path); err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	return nil
}

func writeSpecial(path string, write func(io.Writer) error) error {
	out, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(write(out), out.Close())
}

// createPart creates a file beside path that its owner alone may read, because a report names nodes and shows what a program prints.
// Its name is random, since another user may write in the directory too, such as in /tmp.
func createPart(path string) (*os.File, error) {
	name := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text())
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}
