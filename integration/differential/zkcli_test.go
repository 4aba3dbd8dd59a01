package differential

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/integration/needs"
)

const (
	zkCLI = "/usr/share/zookeeper/bin/zkCli.sh"
	// cliLimit is the limit for all commands together; they take seconds.
	cliLimit = 2 * time.Minute
)

// cliCommands are all commands of zkCli.sh, with the ways in which they fail. Two are left out:
// stat of a node that may not be read, which 3.8.0 allows, and commands that print addresses.
var cliCommands = strings.Split(strings.TrimSpace(`
ls /
ls -s /
ls -R /
create /a hello
create /a again
create -s /a/s- x
create -e /e data
create -e -s /e- data
create -c /c cont
create -t 100000 /ttl tt
create -s -t 100000 /ttls tt
create -t 0 /ttl0 tt
create -e -t 1000 /bad tt
create -c -e /bad tt
create /e/x data
create /noparent/x data
create bad data
create //x
create /a/../b
create /..
create /x/
create /\u00e9 data
get /\u00e9
create /b data world:anyone:r
create /b2 data digest:u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=:cdrwa
create /b3 data auth::cdrwa
create /b4 data foo:bar:cdrwa
create /nodata
get /nodata
get -s /nodata
get -s /a
get -w /a
set /a changed
set -s /a again
set -v 99 /a x
set -v 2 /a x
set /nope x
set /b x
stat /a
stat -w /a
set /a y
stat /nope
ls -w /a
create /a/child
ls -s -w /a
ls /nope
ls /b2
get /b2
get -w /b2
getAllChildrenNumber /b2
create /b/x
delete /b
getAcl /a
getAcl -s /a
getAcl /b2
getAcl /nope
setAcl /a world:anyone:cdrw
setAcl -s -v 9 /a world:anyone:cdrwa
setAcl -v 1 /a world:anyone:cdrwa
setAcl /a ip:127.0.0.1:cdrwa
setAcl /a ip:300.1.1.1:r
setAcl /a sasl:a:r
setAcl /a super:x:r
setAcl /a world:x:r
setAcl /a world:anyone:zz
setAcl /nope world:anyone:cdrwa
setAcl /a nosuch
whoami
addauth digest u:p
whoami
get /b2
addauth digest super:secret
whoami
getAcl /b2
create /b3 data auth::cdrwa
getAcl /b3
setAcl -R /a world:anyone:cdrwa
getAcl /a
setquota -n 2 /a
listquota /a
setquota -b 10 /a
setquota -N 6 /a
setquota -B 30 /a
listquota /a
create /a/q1 x
create /a/q2 x
create /a/q3 x
create /a/q4 x
set /a/q1 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
listquota /a
get /zookeeper/quota/a/zookeeper_limits
get -s /zookeeper/quota/a/zookeeper_stats
setquota -n 5 /a/child
setquota -n 5 /
setquota -n 5 /nope
setquota -n x /a
setquota -N 1 -B 1 -n 2 -b 3 /a
delquota -n /a
listquota /a
delquota -b /a
delquota -N -B /a
listquota /a
delquota /a
delquota /a
listquota /a
ls -R /zookeeper
getAllChildrenNumber /a
getAllChildrenNumber /
getAllChildrenNumber /nope
getEphemerals
getEphemerals /e-
getEphemerals /zz
addWatch /w
create /w x
create /w/x y
set /w z
removewatches /w
removewatches /w
addWatch -m PERSISTENT /w2
create /w2 1
create /w2/y 1
set /w2/y 2
set /w2 2
set /w2 3
addWatch -m PERSISTENT_RECURSIVE /w3
create /w3 1
create /w3/z 1
set /w3/z 2
delete /w3/z
removewatches -a /w3
addWatch -m BOGUS /w
get -w /w
removewatches -d /w
set /w 5
ls -w /w
removewatches -c /w
stat -w /w
removewatches -l /w
sync /a
sync /nope
config
config -s
set /zookeeper/config x
reconfig -add server.1=127.0.0.1:2888:3888;2181
reconfig -remove 2
delete /a
delete -v 99 /nodata
delete /nodata
delete /nope
delete /
delete /zookeeper
deleteall /a
deleteall -b 10 /w
deleteall /nope
rmr /c
create /c/one
delete /c/one
ls /
close
ls /
`), "\n")

// The output of zkCli.sh is the same on both sides, command by command, except for times, zxids and
// ids. It prints watch events at any time, so these are compared as a whole.
func TestZkCLI(t *testing.T) {
	needs.Check(t, needs.Usual)
	dir := scratch(t)
	sides := []*target{startZooKeeper(t, dir), startRollcall(t, dir, 1)}
	said, events := make([][]string, 2), make([][]string, 2)
	var both sync.WaitGroup
	for i, z := range sides {
		both.Go(func() {
			printed, err := cliSession(t.Context(), z.addrs[0])
			if err != nil {
				t.Errorf("%s: %v\n%s", z.name, err, printed)
				return
			}
			said[i], events[i] = cliSections(printed)
		})
	}
	both.Wait()
	if t.Failed() {
		return
	}
	for i, command := range cliCommands {
		if i >= len(said[0]) || i >= len(said[1]) {
			t.Fatalf("%q: not reached: %d and %d answers", command, len(said[0]), len(said[1]))
		}
		if zk, rc := said[0][i], said[1][i]; zk != rc {
			t.Errorf("%s\nZooKeeper: %s\nRollcall: %s", command, zk, rc)
		}
	}
	if len(events[0]) < 10 || !slices.Equal(events[0], events[1]) {
		t.Errorf("events\nZooKeeper: %q\nRollcall: %q", events[0], events[1])
	}
}

// cliMark is a node that does not exist: the reply to it comes before the reply to a command.
const cliMark = "/mark-"

// cliSession lets zkCli.sh run all commands in one session, and returns its output.
func cliSession(ctx context.Context, addr string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, cliLimit)
	defer cancel()
	var in strings.Builder
	for i, command := range cliCommands {
		fmt.Fprintf(&in, "get %s%d\n%s\n", cliMark, i, strings.ReplaceAll(command, `\u00e9`, "é"))
	}
	in.WriteString("quit\n")
	cmd := exec.CommandContext(ctx, zkCLI, "-waitforconnection", "-server", addr)
	cmd.Env = append(os.Environ(), "JVMFLAGS=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx128m -Dfile.encoding=UTF-8")
	cmd.Stdin = strings.NewReader(in.String())
	cmd.WaitDelay = time.Second
	printed, err := cmd.CombinedOutput()
	return string(printed), err
}

var (
	cliEvent  = regexp.MustCompile(`\nWatchedEvent .*\n`) // may come in the middle of a line
	cliStart  = regexp.MustCompile(`(?:Node does not exist: ` + cliMark + `\d+|Not connected)\n`)
	cliVaries = regexp.MustCompile(`(?m)^((?:c|m|p)Zxid|ctime|mtime|ephemeralOwner) = .*$`)
)

// cliSections returns the output of each command, with its lines in order, and the events that were
// printed.
func cliSections(printed string) (said, events []string) {
	printed = strings.ReplaceAll(printed, "\nWATCHER::\n", "")
	for _, event := range cliEvent.FindAllString(printed, -1) {
		if !strings.Contains(event, "type:None") {
			events = append(events, strings.TrimSpace(event))
		}
	}
	for _, part := range cliStart.Split(cliEvent.ReplaceAllString(printed, ""), -1)[1:] {
		var lines []string
		for line := range strings.Lines(cliVaries.ReplaceAllString(part, "$1")) {
			if strings.TrimSpace(line) == "" {
				continue
			}
			if list, ok := strings.CutPrefix(strings.TrimSpace(line), "["); ok { // a list of names, in no order
				names := strings.Split(strings.TrimSuffix(list, "]"), ", ")
				slices.Sort(names)
				line = strings.Join(names, ", ") + "\n"
			}
			lines = append(lines, line)
		}
		slices.Sort(lines)
		said = append(said, strings.Join(lines, ""))
	}
	return said, events
}
