package target

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// network is a bridge in a namespace of its own, to which the namespaces of the members and this machine are connected.
// Rules of this machine for bridges, such as Docker's, have no effect on it.
type network struct {
	id     string // part of all names
	subnet string // first three numbers of the addresses
	netem  bool   // whether the kernel has netem, which delays packets
}

// namespaces is the directory in which ip keeps the names of network namespaces.
const namespaces = "/run/netns"

// hostNumber is the last number of this machine's address on the bridge. Members have their ids.
const hostNumber = 254

// CheckNamespaces returns nil if NewNamespaces works here, and otherwise what it lacks, in words for the user.
func CheckNamespaces() error {
	if err := checkRoot("network namespaces need"); err != nil {
		return err
	}
	packages := map[string]string{
		"ip": "iproute2", "tc": "iproute2", "ss": "iproute2", "nft": "nftables", "nsenter": "util-linux",
	}
	for program, from := range packages {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("network namespaces need the program %s: apt-get install %s", program, from)
		}
	}
	return nil
}

// checkRoot returns an error that begins with what, unless this process is root's on Linux.
func checkRoot(what string) error {
	switch {
	case runtime.GOOS != "linux":
		return fmt.Errorf("%s Linux, and this is %s", what, runtime.GOOS)
	case os.Geteuid() != 0:
		return fmt.Errorf("%s root, and this is user %d: run the drill with sudo", what, os.Geteuid())
	}
	return nil
}

func (n *network) hubName() string                { return "rcd-" + n.id + "-hub" }
func (n *network) namespaceOf(name string) string { return "rcd-" + n.id + "-" + name }
func (n *network) hostInterface() string          { return "rcd" + n.id }
func (n *network) addressOf(number int) string {
	return n.subnet + "." + strconv.Itoa(number)
}

// bridgePort is the bridge's side of a member's link.
func (n *network) bridgePort(name string) string { return "m" + name }

// commandInside returns a command line that runs in a member's namespace.
func (n *network) commandInside(name string, argv ...string) []string {
	return insideNamespace(n.namespaceOf(name), argv...)
}

// insideNamespace returns a command line that runs in a network namespace; "" stands for that of this process. Unlike ip netns
// exec, nsenter copies no mounts, which would keep a member's disk mounted.
func insideNamespace(space string, argv ...string) []string {
	if space == "" {
		return argv
	}
	return append([]string{"nsenter", "--net=" + filepath.Join(namespaces, space)}, argv...)
}

// connectMembers makes the namespaces, and gives the members their addresses.
func (t *Processes) connectMembers(ctx context.Context) error {
	n := t.network
	n.id = strings.ToLower(rand.Text()[:6]) // an interface's name has at most 15 characters
	if err := t.connectHost(ctx); err != nil {
		return err
	}
	for _, m := range t.members {
		if err := t.attachMember(ctx, m); err != nil {
			return err
		}
	}
	n.netem = n.tryNetem(ctx, t.members[0]) == nil
	return nil
}

// takingSubnet is held from the choice of a subnet until an interface of this machine has it, so that no two ensembles of this
// process choose the same.
var takingSubnet sync.Mutex

// connectHost makes the bridge, and gives this machine its address.
func (t *Processes) connectHost(ctx context.Context) error {
	takingSubnet.Lock()
	defer takingSubnet.Unlock()
	n := t.network
	var err error
	if n.subnet, err = freeSubnet(); err != nil {
		return err
	}
	undo := []Step{
		{Run: []string{"ip", "link", "delete", n.hostInterface()}, Needs: "/sys/class/net/" + n.hostInterface()}, n.removalStep("hub"),
	}
	if err := t.journalPart("the network namespaces "+n.namespaceOf("…"), undo...); err != nil {
		return err
	}
	hub, host := n.hubName(), n.hostInterface()
	return n.runIP(ctx,
		"netns add "+hub,
		"-n "+hub+" link add br0 type bridge",
		"-n "+hub+" link set br0 up",
		"link add "+host+" type veth peer name up0 netns "+hub,
		"-n "+hub+" link set up0 master br0 up",
		"address add "+n.addressOf(hostNumber)+"/24 dev "+host,
		"link set "+host+" up")
}

// attachMember makes a member's namespace, connects it with the bridge, and gives the member its address.
func (t *Processes) attachMember(ctx context.Context, m *member) error {
	n := t.network
	if err := t.addFor(m, "the network namespace "+n.namespaceOf(m.Name), n.removalStep(m.Name)); err != nil {
		return err
	}
	hub, space, port := n.hubName(), n.namespaceOf(m.Name), n.bridgePort(m.Name)
	m.space = space
	m.setAddresses(net.ParseIP(n.addressOf(m.id)), fixedPorts)
	return n.runIP(ctx,
		"netns add "+space,
		"-n "+space+" link set lo up",
		"-n "+hub+" link add "+port+" type veth peer name eth0 netns "+space,
		"-n "+hub+" link set "+port+" master br0 up",
		"-n "+space+" address add "+n.addressOf(m.id)+"/24 dev eth0",
		"-n "+space+" link set eth0 up")
}

// removalStep removes the namespace of a member, or of the bridge.
func (n *network) removalStep(name string) Step {
	return Step{Run: []string{"ip", "netns", "delete", n.namespaceOf(name)}, Needs: filepath.Join(namespaces, n.namespaceOf(name))}
}

// runIP runs ip with each line of arguments.
func (n *network) runIP(ctx context.Context, lines ...string) error {
	for _, line := range lines {
		if err := runCommand(ctx, stepTimeout, nil, append([]string{"ip"}, strings.Fields(line)...)...); err != nil {
			return err
		}
	}
	return nil
}

// tryNetem returns an error if the kernel has no netem.
func (n *network) tryNetem(ctx context.Context, m *member) error {
	if err := runCommand(ctx, stepTimeout, nil, "tc", "-n", n.namespaceOf(m.Name), "qdisc", "replace", "dev", "eth0", "root",
		"netem", "delay", "1ms"); err != nil {
		return err
	}
	return runSteps(ctx, n.removeQueueSteps(m.Name))
}

// freeSubnet returns the first three numbers of 256 addresses that no interface of this machine has. They are of
// 198.18.0.0/15, which RFC 2544 keeps for tests of networks.
func freeSubnet() (string, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for i := range 512 {
		subnet := fmt.Sprintf("198.%d.%d", 18+i/256, (i+os.Getpid())%256)
		taken := false
		for _, a := range addrs {
			n, ok := a.(*net.IPNet)
			taken = taken || ok && (n.Contains(net.ParseIP(subnet+".1")) || strings.HasPrefix(n.IP.String(), subnet+"."))
		}
		if !taken {
			return subnet, nil
		}
	}
	return "", errors.New("all of 198.18.0.0/15 is in use on this machine: run `rollcall drill heal`, or remove " +
		"interfaces")
}

// tableName is the name of the nft table of one fault.
func tableName(id int) string { return "drill" + strconv.Itoa(id) }

// removeTableStep removes a table from a member's namespace, if it is there.
func (n *network) removeTableStep(name string, id int) Step {
	t := "table inet " + tableName(id)
	return Step{Run: n.commandInside(name, "nft", "add "+t+"; delete "+t), Needs: filepath.Join(namespaces, n.namespaceOf(name))}
}

// applyFilter runs an nft script in a member's namespace: a table for the fault with the chains in and out, and rules.
func (n *network) applyFilter(ctx context.Context, name string, id int, rules []string) error {
	t := "inet " + tableName(id)
	script := []string{"add table " + t}
	for _, chain := range []string{"in", "out"} {
		script = append(script, fmt.Sprintf("add chain %s %s { type filter hook %sput priority 0; }", t, chain, chain))
	}
	for _, rule := range rules {
		script = append(script, strings.ReplaceAll(rule, "TABLE", t))
	}
	return runCommand(ctx, stepTimeout, nil, n.commandInside(name, "nft", strings.Join(script, "; "))...)
}

// networkFaults makes the faults of the members' network.
type networkFaults struct{ processes *Processes }

// registerMethods lets the members have the faults of their network.
func (t networkFaults) registerMethods() {
	methods := t.processes.methods
	methods[Cut], methods[Forget] = faultMethod{nil, t.planCut}, faultMethod{nil, t.planForget}
	methods[Slow] = faultMethod{t.canSlow, t.planSlow}
}

// cutAddresses returns the addresses that a fault cuts its member from.
func (t networkFaults) cutAddresses(f Fault) []string {
	var all []string
	from := f.From
	if from == nil {
		from = t.processes.names
	}
	for _, name := range from {
		if name != f.Member {
			all = append(all, t.processes.network.addressOf(t.processes.findMember(name).id))
		}
	}
	if f.Client {
		all = append(all, t.processes.network.addressOf(hostNumber))
	}
	return all
}

func (t networkFaults) planCut(f Fault, id int) (faultPlan, error) {
	peers := t.cutAddresses(f)
	if len(peers) == 0 {
		return faultPlan{}, errors.New("it is cut from nobody: name members, or clients")
	}
	return faultPlan{
		undo: []Step{t.processes.network.removeTableStep(f.Member, id)},
		make: func(ctx context.Context) error {
			return t.processes.network.applyFilter(ctx, f.Member, id, cutRules(f, peers))
		},
	}, nil
}

// cutRules returns the rules for a cut from peers.
func cutRules(f Fault, peers []string) (rules []string) {
	chains := []struct{ name, match string }{{"out", "ip daddr"}, {"in", "ip saddr"}}
	if f.OneWay {
		chains = chains[:1]
	}
	matches := []string{""}
	if f.Port != "" {
		p := fixedPorts
		numbers := strconv.Itoa(p.clients)
		if f.Port == PeerPorts {
			numbers = fmt.Sprintf("%d, %d", p.quorum, p.election)
		}
		matches = []string{"tcp sport { " + numbers + " } ", "tcp dport { " + numbers + " } "}
	}
	for _, chain := range chains {
		for _, match := range matches {
			rules = append(rules, fmt.Sprintf("add rule TABLE %s %s { %s } %sdrop", chain.name, chain.match,
				strings.Join(peers, ", "), match))
		}
	}
	return rules
}

// canSlow returns an error if a member's links cannot be slowed down.
func (t networkFaults) canSlow(f Fault) error {
	switch {
	case f.Delay > 0 && !t.processes.network.netem:
		return errors.New("this kernel cannot delay packets, because it lacks netem: modprobe sch_netem, or use another " +
			"machine (a rate and a loss work without it)")
	case len(t.processes.brokenOf(f.Member, Slow)) > 0:
		return fmt.Errorf("the links of member %s are slow already: repair that first", f.Member)
	}
	return nil
}

// linkEnds returns the two ends of a member's link, as a namespace and an interface.
func (n *network) linkEnds(name string) [][2]string {
	return [][2]string{{n.namespaceOf(name), "eth0"}, {n.hubName(), n.bridgePort(name)}}
}

// removeQueueSteps takes the discipline from both ends of a member's link. It may be done again.
func (n *network) removeQueueSteps(name string) (steps []Step) {
	for _, end := range n.linkEnds(name) {
		steps = append(steps, Step{
			Run:   []string{"tc", "-n", end[0], "qdisc", "replace", "dev", end[1], "root", "noqueue"},
			Needs: filepath.Join(namespaces, end[0]),
		})
	}
	return steps
}

func (t networkFaults) planSlow(f Fault, id int) (faultPlan, error) {
	n := t.processes.network
	return faultPlan{
		undo: append(n.removeQueueSteps(f.Member), n.removeTableStep(f.Member, id)),
		make: func(ctx context.Context) error {
			discipline, rules := slowArguments(f, n.netem)
			if f.From != nil {
				discipline, rules = nil, lossFrom(f.Loss, t.cutAddresses(f))
			}
			for _, end := range n.linkEnds(f.Member) {
				if discipline == nil {
					break
				}
				argv := append([]string{"tc", "-n", end[0], "qdisc", "replace", "dev", end[1], "root"}, discipline...)
				if err := runCommand(ctx, stepTimeout, nil, argv...); err != nil {
					return err
				}
			}
			if rules == nil {
				return nil
			}
			return n.applyFilter(ctx, f.Member, id, rules)
		},
	}, nil
}

// slowArguments returns the arguments of tc for each end of a link, and the rules of nft, for a fault. Without netem, tbf
// limits the rate and nft loses packets.
func slowArguments(f Fault, netem bool) (discipline, rules []string) {
	rate := strconv.Itoa(8*f.Rate) + "bit"
	if netem {
		// The queue holds the packets of 0.1 s at 1 Gbit/s, so that only the requested share is lost.
		discipline = []string{"netem", "limit", "10000"}
		if f.Delay > 0 {
			discipline = append(discipline, "delay", strconv.FormatInt(f.Delay.Microseconds(), 10)+"us")
		}
		if f.Loss > 0 {
			discipline = append(discipline, "loss", strconv.FormatFloat(100*f.Loss, 'f', 4, 64)+"%")
		}
		if f.Rate > 0 {
			discipline = append(discipline, "rate", rate)
		}
		return discipline, nil
	}
	if f.Rate > 0 {
		// A burst of one large packet of veth, and a queue of a second.
		discipline = []string{"tbf", "rate", rate, "burst", "64kb", "latency", "1s"}
	}
	if f.Loss > 0 {
		rules = []string{"add rule TABLE in " + lossRule("198.18.0.0/15", f.Loss), "add rule TABLE out " + lossRule("198.18.0.0/15", f.Loss)}
	}
	return discipline, rules
}

// lossFrom returns the rules by which a member loses a share of the packets of peers.
func lossFrom(share float64, peers []string) []string {
	return []string{"add rule TABLE in " + lossRule("{ "+strings.Join(peers, ", ")+" }", share)}
}

// lossRule returns the rule that loses a share of the packets of some addresses.
func lossRule(from string, share float64) string {
	const of = 1_000_000
	return fmt.Sprintf("ip saddr %s numgen random mod %d < %d drop", from, of, int(share*of))
}

func (t networkFaults) planForget(f Fault, id int) (faultPlan, error) {
	n := t.processes.network
	return faultPlan{
		undo: []Step{n.removeTableStep(f.Member, id)},
		make: func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, stepTimeout)
			defer cancel()
			argv := n.commandInside(f.Member, "ss", "-Htn", "state", "established")
			out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).Output()
			if err != nil {
				return fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
			}
			flows := flowsTo(string(out), t.cutAddresses(f))
			if len(flows) == 0 {
				return fmt.Errorf("member %s has no connections that could be lost", f.Member)
			}
			return n.applyFilter(ctx, f.Member, id, []string{
				"add set TABLE flows { type ipv4_addr . inet_service . ipv4_addr . inet_service; }",
				"add element TABLE flows { " + strings.Join(flows, ", ") + " }",
				"add rule TABLE out ip saddr . tcp sport . ip daddr . tcp dport @flows drop",
				"add rule TABLE in ip daddr . tcp dport . ip saddr . tcp sport @flows drop",
			})
		},
	}, nil
}

// flowsTo returns the connections with peers in the output of ss, as elements of a set of nft. Its lines have the local
// and the other address after two numbers.
func flowsTo(output string, peers []string) (flows []string) {
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		var pair []string
		wanted := false
		for _, addr := range fields[2:4] {
			host, port, err := net.SplitHostPort(addr)
			if err != nil {
				break
			}
			host = strings.TrimPrefix(host, "::ffff:")
			pair = append(pair, host, port)
			for _, peer := range peers {
				wanted = wanted || len(pair) == 4 && host == peer
			}
		}
		if wanted {
			flows = append(flows, strings.Join(pair, " . "))
		}
	}
	return flows
}
