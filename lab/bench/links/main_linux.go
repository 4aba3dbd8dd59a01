// Command links makes network namespaces that are connected by links with a delay, for compare.sh. It is a switch: each
// namespace has a tun device, and the command reads a packet from one device and writes it to another one later.
// A kernel with netem could do the same, but not every kernel has it.
//
// It needs root, /dev/net/tun and Debian's package iproute2. It ends on SIGTERM, and removes the namespaces then.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	device = "link0"
	// mtu is that of the devices. Most Ethernet switches take such packets, and one system call moves six times as much as with 1,500.
	mtu = 9000
	// maxQueued limits the bytes that are under way on a link. It is what 10 Gbit/s carry in 50 ms. Further packets are lost.
	maxQueued = 64 << 20
	// maxPackets limits the packets that are under way on a link.
	maxPackets = 1 << 14
	// maxPorts limits the namespaces. Each two have two links, and each link has a thread.
	maxPorts = 9
)

// subnet has the address of each namespace: the first one has 10.47.0.1.
var subnet = netip.MustParsePrefix("10.47.0.0/24")

func main() {
	delay := flag.Duration("delay", 5*time.Millisecond, "`time` of each packet from one namespace to another")
	flag.Usage = func() {
		fmt.Fprintf(os.Stderr, "usage: links [-delay 5ms] NAMESPACE...\nmakes the namespaces, prints ready, and ends on SIGTERM\n")
	}
	flag.Parse()
	if flag.NArg() < 2 || flag.NArg() > maxPorts || *delay < 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*delay, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "links:", err)
		os.Exit(1)
	}
}

// run makes the namespaces and connects them until a signal comes or a device fails.
func run(delay time.Duration, names []string) error {
	if err := checkPrivileges(); err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	var devices []*os.File
	for i, name := range names {
		if err := ip("netns", "add", name); err != nil {
			return err
		}
		defer func() { _ = ip("netns", "delete", name) }() // nobody could do more
		f, err := openDevice(name, address(i))
		if err != nil {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
		devices = append(devices, f)
	}
	failed := make(chan error, len(devices))
	for i, f := range devices {
		go func() { failed <- forward(i, f, connect(i, devices, delay)) }()
	}
	fmt.Println("ready")
	select {
	case <-ended:
		return nil
	case err := <-failed:
		return err
	}
}

// checkPrivileges returns an error that says what is missing, or nil.
func checkPrivileges() error {
	if os.Geteuid() != 0 {
		return errors.New("making network namespaces needs root")
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		return fmt.Errorf("the kernel has no tun devices: %w", err)
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return errors.New("ip is missing: apt-get install iproute2")
	}
	return nil
}

func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %v: %w: %s", args, err, out)
	}
	return nil
}

// address returns the address of the i-th namespace, counted from 0.
func address(i int) netip.Addr {
	a := subnet.Addr().As4()
	a[3] = byte(i + 1)
	return netip.AddrFrom4(a)
}

// openDevice makes the tun device of a namespace.
func openDevice(namespace string, own netip.Addr) (f *os.File, err error) {
	if err := inNamespace(namespace, func() error {
		f, err = newTun()
		return err
	}); err != nil {
		return nil, err
	}
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"address", "add", netip.PrefixFrom(own, subnet.Bits()).String(), "dev", device},
		{"link", "set", device, "mtu", strconv.Itoa(mtu), "txqueuelen", "10000", "up"},
	} {
		if err := ip(append([]string{"-netns", namespace}, args...)...); err != nil {
			_ = f.Close() // the first error counts
			return nil, err
		}
	}
	return f, nil
}

// newTun makes a tun device in the thread's namespace.
func newTun() (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/net/tun: %w", err)
	}
	request, err := unix.NewIfreq(device)
	if err != nil {
		return nil, err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return nil, fmt.Errorf("make a tun device: %w", err)
	}
	return os.NewFile(uintptr(fd), device), nil
}

// inNamespace calls do in a thread that is in a network namespace. The thread ends with the call.
func inNamespace(name string, do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		done <- func() error {
			f, err := os.Open("/run/netns/" + name)
			if err != nil {
				return err
			}
			defer func() { _ = f.Close() }() // it was only read
			if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("enter namespace %s: %w", name, err)
			}
			return do()
		}()
	}()
	return <-done
}

// connect starts the links from the i-th device to the others. The link to itself is nil.
func connect(i int, devices []*os.File, delay time.Duration) []*link {
	links := make([]*link, len(devices))
	for j, to := range devices {
		if j != i {
			links[j] = newLink(delay, maxQueued, maxPackets)
			go links[j].deliver(func(packet []byte) {
				_, _ = to.Write(packet) // a device whose queue is full loses the packet, as a network does
			}, sleepPrecisely)
		}
	}
	return links
}

// forward reads packets from the i-th device until that fails, and puts each on the link to its destination. A read blocks a thread:
// that is sooner than Go's poller, and ends with the process.
func forward(i int, from *os.File, links []*link) error {
	var lost sync.Once
	packet := make([]byte, mtu)
	for {
		n, err := from.Read(packet)
		if err != nil {
			return fmt.Errorf("read from device %d: %w", i, err)
		}
		if j, ok := destination(packet[:n]); ok && j < len(links) && links[j] != nil && !links[j].send(packet[:n]) {
			lost.Do(func() { fmt.Fprintf(os.Stderr, "links: the link from %d to %d is full and loses packets\n", i+1, j+1) })
		}
	}
}

// destination returns the number of the namespace that an IPv4 packet is for, counted from 0. Other packets, such as those by which
// IPv6 looks for neighbours, have none.
func destination(packet []byte) (i int, ok bool) {
	const header = 20
	if len(packet) < header || packet[0]>>4 != 4 {
		return 0, false
	}
	to := netip.AddrFrom4([4]byte(packet[16:20]))
	return int(packet[19]) - 1, subnet.Contains(to) && packet[19] > 0
}

// sleepPrecisely blocks a thread. Go's timers may be a millisecond late, which is a whole delay of the fastest links.
func sleepPrecisely(d time.Duration) {
	ts := unix.NsecToTimespec(d.Nanoseconds())
	_ = unix.Nanosleep(&ts, nil) // a signal ends it early; the caller checks the time
}
