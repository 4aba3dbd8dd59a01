package target

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Program names the software of an ensemble.
type Program string

const (
	Rollcall  Program = "rollcall"
	ZooKeeper Program = "zookeeper" // Debian's package
	// Floor is lab/bench/floor. Its first member alone takes clients. It has no roles, no TLS, and no operators.
	Floor Program = "floor"
)

// launcher starts the members of an ensemble.
type launcher struct {
	argv     func(t *Processes, m *member) []string
	rollcall bool // it takes Rollcall's commands, and has Rollcall's HTTP API
}

var rollcallLauncher = launcher{argv: func(t *Processes, m *member) []string {
	return []string{cmp.Or(m.binary, t.cfg.Binary), "serve", m.config}
}, rollcall: true}

var floorLauncher = launcher{argv: func(t *Processes, m *member) []string {
	var peers []string
	for _, other := range t.members {
		peers = append(peers, net.JoinHostPort(other.ip.String(), strconv.Itoa(other.ports.quorum)))
	}
	argv := []string{t.cfg.Binary, "--member", m.Name, "--peers", strings.Join(peers, ","), "--data", m.data}
	if m.Clients != "" {
		argv = append(argv, "--client", m.Clients)
	}
	return argv
}}

// selectLauncher returns the launcher of an ensemble, and sets the defaults about it.
func (c *ProcessConfig) selectLauncher() (launcher, error) {
	if c.Binary == "" {
		running, err := os.Executable()
		if err != nil {
			return launcher{}, fmt.Errorf("which binary runs is not known: %w; name one", err)
		}
		c.Binary = running
	}
	c.Program = cmp.Or(c.Program, Rollcall)
	switch c.Program {
	case Rollcall:
		return rollcallLauncher, nil
	case ZooKeeper:
		return zooKeeperLauncher(c.Jars, c.Java)
	case Floor:
		return floorLauncher, nil
	}
	return launcher{}, fmt.Errorf("the program %.40q must be %q, %q or %q", c.Program, Rollcall, ZooKeeper, Floor)
}

const javaDirectory = "/usr/share/java"

// smallServer has the options of Java with which Debian's own tests start ZooKeeper.
var smallServer = []string{"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-Xshare:auto"}

// zooKeeperLauncher starts the ZooKeeper of a directory of jars, or Debian's if it is "", with these options of Java, or with
// smallServer if they are nil.
func zooKeeperLauncher(directory string, options []string) (launcher, error) {
	jars := debianJars()
	if directory != "" {
		jars = []string{filepath.Join(directory, "*")} // Java's own wildcard
	}
	java, err := javaOf(cmp.Or(directory, jars[0]))
	if err != nil {
		return launcher{}, err
	}
	if options == nil {
		options = smallServer
	}
	command := slices.Concat([]string{java}, options, []string{
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", strings.Join(jars, ":"),
		"org.apache.zookeeper.server.quorum.QuorumPeerMain",
	})
	return launcher{argv: func(_ *Processes, m *member) []string { return append(slices.Clip(command), m.config) }}, nil
}

// debianJars returns the jars of Debian's ZooKeeper, which come first, and of all that it needs.
func debianJars() []string {
	jars := []string{"zookeeper", "slf4j-simple", "snappy-java"}
	for _, part := range []string{
		"buffer", "codec", "common", "handler", "resolver", "transport", "transport-native-epoll",
		"transport-native-unix-common",
	} {
		jars = append(jars, "netty-"+part)
	}
	for i, jar := range jars {
		jars[i] = filepath.Join(javaDirectory, jar+".jar")
	}
	return jars
}

// CheckZooKeeper returns nil if members can run Debian's ZooKeeper, and otherwise what is missing, in words for the user.
func CheckZooKeeper() error {
	_, err := zooKeeperLauncher("", nil)
	return err
}

// javaOf returns the path of Java, if a jar, or a directory of jars, is there, too.
func javaOf(jar string) (string, error) {
	if _, err := os.Stat(jar); err != nil {
		return "", fmt.Errorf("%w: members of ZooKeeper need Debian's package: apt-get install zookeeper", err)
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return "", fmt.Errorf("%w: members of ZooKeeper need Java: apt-get install default-jre-headless", err)
	}
	return java, nil
}
