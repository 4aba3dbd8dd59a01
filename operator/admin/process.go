package admin

import (
	"errors"
	"io"
	"math"
	"os"
	"os/user"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"syscall"
)

// unsetProperty is Java's text for a property without a value. Here none of Java's own have one.
const unsetProperty = "<NA>"

func (w *FourLetterCommands) envi(p *textWriter, _ *Stats, _ io.Reader) {
	p.printf("Environment:\n")
	w.eachProperty(func(name, value string) { p.printf("%s=%s\n", name, value) })
}

// eachProperty calls show for every line of the environment.
func (w *FourLetterCommands) eachProperty(show func(name, value string)) {
	put := func(name, value string) {
		if value == "" {
			value = unsetProperty
		}
		show(name, value)
	}
	put("zookeeper.version", w.version)
	host, _ := os.Hostname() // empty if it cannot be found out
	put("host.name", host)
	for _, name := range []string{"version", "vendor", "home", "class.path", "library.path"} {
		put("java."+name, "")
	}
	put("java.io.tmpdir", os.TempDir())
	put("java.compiler", "")
	put("os.name", osName())
	put("os.arch", runtime.GOARCH)
	put("os.version", osVersion())
	name, home := "", ""
	if u, err := user.Current(); err == nil {
		name, home = u.Username, u.HomeDir
	}
	dir, _ := os.Getwd()
	put("user.name", name)
	put("user.home", home)
	put("user.dir", dir)
	free, most, total := memoryProperties()
	put("os.memory.free", free)
	put("os.memory.max", most)
	put("os.memory.total", total)
}

func osName() string { return strings.ToUpper(runtime.GOOS[:1]) + runtime.GOOS[1:] }

// osVersion returns the kernel's version, or "" if it is unknown.
func osVersion() string {
	text, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return strings.TrimSpace(string(text))
}

// memoryProperties returns the memory that the runtime has free, its limit, and what it has taken from the
// system.
func memoryProperties() (free, most, total string) {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	released := samples[2].Value.Uint64()
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 { // a negative number only reads the limit
		most = megabytes(uint64(limit))
	}
	return megabytes(samples[1].Value.Uint64()), most, megabytes(samples[0].Value.Uint64() - released)
}

func megabytes(n uint64) string { return strconv.FormatUint(n>>20, 10) + "MB" }

const namesAtOnce = 1024

// fileDescriptors returns the number of open file descriptors of this process and its limit, or -1 for what the
// system does not report.
func fileDescriptors() (open, most int64) {
	open, most = unknownCount, unknownCount
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		most = int64(limit.Cur)
	}
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return open, most
	}
	defer func() { _ = dir.Close() }() // it was only read from
	for n := int64(-1); ; {            // dir itself does not count
		names, err := dir.Readdirnames(namesAtOnce)
		if n += int64(len(names)); err != nil {
			if errors.Is(err, io.EOF) {
				open = n
			}
			return open, most
		}
	}
}
