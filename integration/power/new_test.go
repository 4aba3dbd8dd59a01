package power

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// A member makes its data directory, and those above it. Once it has acknowledged something, a loss of power takes neither the
// directory nor its number.
func TestNewDirectoryLosesPower(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Run("serve", func(t *testing.T) {
		conf, address := t.TempDir(), process.FreePort(t)
		losesNewDirectory(t, address, filepath.Join("new", "data"), []string{"new/data/myid"}, func(dir string) *exec.Cmd {
			writeFile(t, filepath.Join(conf, "zoo.cfg"), fmt.Sprintf("tickTime=%d\ndataDir=%s\nclientPortAddress=%s\nclientPort=%d\nadmin.enableServer=false\n4lw.commands.whitelist=*\n",
				tick.Milliseconds(), filepath.Join(dir, "new", "data"), address.IP, address.Port))
			cmd := exec.Command("", "serve")
			cmd.Env = append(os.Environ(), "ZOO_CONF_DIR="+conf, "ZOO_MY_ID=1")
			return cmd
		})
	})
	t.Run("up", func(t *testing.T) {
		address := portOfUp(t)
		losesNewDirectory(t, address, filepath.Join("new", "up", "1"), []string{"new/up/token", "new/up/secret"}, func(dir string) *exec.Cmd {
			cmd := exec.Command("", "up", "--data", filepath.Join(dir, "new", "up"), "--members", "1", "--port", fmt.Sprint(address.Port))
			cmd.Env = os.Environ()
			return cmd
		})
	})
}

// losesNewDirectory starts a member with a command, whose path it sets, and takes the power from its disk. data is the member's
// data directory, below the directory that the command is for, and files are other files there that must be kept.
func losesNewDirectory(t *testing.T, address *net.TCPAddr, data string, files []string, command func(dir string) *exec.Cmd) {
	dir, r := t.TempDir(), &recorder{}
	d := r.record(t, rollcall, dir, 1)
	cmd, printed := command(dir), &bytes.Buffer{}
	path, err := exec.LookPath(d.Binary)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path, cmd.Args[0], cmd.Err = path, path, nil
	cmd.Env, cmd.Stdout, cmd.Stderr = append(cmd.Env, d.Env...), printed, printed
	p := process.Start(t, "member", cmd, printed.String)
	l := startLoad(t, r, []*process.Member{{ID: 1, Clients: address.String(), Process: p}}, 1)
	l.await(t, 20)
	acked := l.stop()
	p.Kill()
	changes, rng := r.all(), rand.New(rand.NewPCG(1, 2))
	for seed := range outages(t, 20) {
		place := 1 + rng.IntN(len(changes))
		dirs, o := cut(t, changes, place, 1, uint64(seed))
		err := keepsNew(filepath.Join(dirs[0], data), before(acked, place))
		for _, name := range files {
			if left := filesBelow(t, filepath.Join(dirs[0], name)); !same(left, filesBelow(t, filepath.Join(dir, name))) &&
				(len(left) > 0 || place >= acked[0].place) {
				err = errors.Join(err, fmt.Errorf("%s has lost its content: %v", name, sizes(left)))
			}
		}
		if err != nil {
			t.Errorf("seed %d: power was lost after change %d, and the disk %v: %v", seed, place, o, err)
		}
	}
}

// keepsNew returns an error if a member does not start with what is left of its data directory, or has not kept what was acknowledged.
func keepsNew(data string, acked []acknowledged) error {
	if _, err := os.Stat(data); len(acked) == 0 && errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	k, err := read(data, 1, []string{"1"})
	if err != nil {
		return err
	}
	return judge([]kept{k}, acked, 1)
}

// portOfUp returns an address for clients of rollcall up, which takes further ports above the clients' port.
func portOfUp(t *testing.T) *net.TCPAddr {
	t.Helper()
	for port := 15000 + os.Getpid()%1000; port < 20000; port++ {
		if err := freeForUp(port); err == nil {
			return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}
		}
	}
	t.Fatal("no free ports")
	return nil
}

func freeForUp(port int) (err error) {
	for _, above := range []int{0, 1000, 2000, 3000} {
		l, lerr := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port + above})
		if lerr != nil {
			return errors.Join(err, lerr)
		}
		err = errors.Join(err, l.Close())
	}
	return err
}
