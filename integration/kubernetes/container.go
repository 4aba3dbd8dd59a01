package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// container is the process of a pod's container.
type container struct {
	pod     *pod
	process *exec.Cmd
	ended   chan struct{} // closed when the process has ended
	err     error         // of the process; read it after ended is closed
}

// mount is a directory that a container has at another place.
type mount struct{ source, target string }

// enter is a shell script that gives a process the name and the file system of a pod: ROOT NAME [SOURCE TARGET]... -- COMMAND...
// The root is read-only, as in the manifest.
const enter = `set -e; root=$1 name=$2; shift 2
echo "$name" > /proc/sys/kernel/hostname
mount --bind "$root" "$root"
while [ "$1" != -- ]; do mount --bind "$1" "$2"; shift 2; done; shift
mount -o remount,bind,ro "$root"
exec chroot --userspec=1000:1000 "$root" "$@"`

// makeNetwork makes the network namespace of the pod, unless it is there from an earlier start. A part of one is removed first.
func (p *pod) makeNetwork() error {
	if _, err := os.Stat("/run/netns/" + p.link); err == nil {
		return nil
	}
	for _, line := range []string{
		"ip netns add " + p.link,
		"ip link add " + p.link + " type veth peer name eth0 netns " + p.link,
		"ip link set " + p.link + " master pods up",
		"ip -n " + p.link + " address add " + p.address + "/16 dev eth0",
		"ip -n " + p.link + " link set eth0 up",
		"ip -n " + p.link + " link set lo up",
	} {
		if err := shell(line); err != nil {
			p.removeNetwork()
			return err
		}
	}
	return nil
}

// removeNetwork removes the network namespace, and with it both devices.
func (p *pod) removeNetwork() {
	if _, err := os.Stat("/run/netns/" + p.link); errors.Is(err, fs.ErrNotExist) {
		return
	}
	_ = shell("ip link delete " + p.link)
	if err := shell("ip netns delete " + p.link); err != nil {
		p.log("%v", err)
	}
}

// startContainer starts the container of a pod in the pod's network namespace, with the binary of its image.
func startContainer(p *pod, mounts []mount) (*container, error) {
	spec := p.Spec.Containers[0]
	args := []string{"netns", "exec", p.link, "unshare", "--mount", "--uts", "sh", "-c", enter, "enter", p.root, p.Name}
	for _, m := range append(mounts, mount{p.nodes.names.dir(), filepath.Join(p.root, "etc")}) {
		args = append(args, m.source, m.target)
	}
	c := &container{pod: p, process: exec.Command("ip", append(append(args, "--", "/rollcall"), spec.Args...)...), ended: make(chan struct{})}
	c.process.Env = p.environment()
	out, err := os.OpenFile(p.root+".log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	c.process.Stdout, c.process.Stderr = out, out
	if err := c.process.Start(); err != nil {
		_ = out.Close()
		return nil, err
	}
	go func() { c.err = c.process.Wait(); _ = out.Close(); close(c.ended) }()
	return c, nil
}

func (c *container) signal(s syscall.Signal) { _ = c.process.Process.Signal(s) }

// exec runs a command in the namespaces of the container, as its user, and returns what it prints.
func (c *container) exec(ctx context.Context, command []string) ([]byte, error) {
	pid := strconv.Itoa(c.process.Process.Pid)
	args := append([]string{"-t", pid, "-n", "-u", "-m", "chroot", "--userspec=1000:1000", c.pod.root}, command...)
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	cmd.Env = c.pod.environment()
	return cmd.CombinedOutput()
}

// environment returns the variables of the container: those that a runtime sets, those of the API's Service, and those of the manifest.
func (p *pod) environment() []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOSTNAME=" + p.Name, "KUBERNETES_SERVICE_HOST=" + gateway, "KUBERNETES_SERVICE_PORT=" + apiPort,
	}
	for _, variable := range p.Spec.Containers[0].Env {
		env = append(env, variable.Name+"="+variable.Value)
	}
	return env
}

// fill makes the root directory of a pod: the binary of its image and the files of its volumes. It returns the mounts of the other volumes.
func (p *pod) fill(ctx context.Context) (mounts []mount, err error) {
	image := p.Spec.Containers[0].Image
	binary, found := p.nodes.images[image]
	if !found {
		return nil, fmt.Errorf("no image %s", image)
	}
	if err := os.MkdirAll(filepath.Join(p.root, "etc"), 0o755); err != nil {
		return nil, err
	}
	if err := os.Link(binary, filepath.Join(p.root, "rollcall")); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	for _, m := range p.Spec.Containers[0].VolumeMounts {
		if err := os.MkdirAll(filepath.Join(p.root, m.MountPath), 0o755); err != nil {
			return nil, err
		}
		volume := p.volume(m.Name)
		if volume.PersistentVolumeClaim == nil {
			continue
		}
		source, err := p.nodes.claimed(ctx, volume.PersistentVolumeClaim.ClaimName)
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, mount{source, filepath.Join(p.root, m.MountPath)})
	}
	return mounts, p.writeFiles(ctx)
}

// volume returns the volume of a name.
func (p *pod) volume(name string) corev1.Volume {
	for _, v := range p.Spec.Volumes {
		if v.Name == name {
			return v
		}
	}
	return corev1.Volume{}
}

// shell runs a line without quotes.
func shell(line string) error {
	if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", line, err, out)
	}
	return nil
}
