package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"rollcall/leader"
	"rollcall/quorum/disk"
)

// Config is what one member needs to know, checked and complete: whatever a file, the
// environment or a flag did not say has its default.
type Config struct {
	MyID       uint32   // 1 to 255; 1 for a standalone server without myid and without server line
	Servers    []Server // by id; none or one for a standalone server
	Standalone bool

	DataDir    string // absolute
	DataLogDir string // absolute; DataDir by default
	ClientAddr string // host:port where clients connect; "" for none, port 0 for any

	Tick              time.Duration
	InitLimit         int // ticks; 0 only for a standalone server
	SyncLimit         int // ticks; 0 only for a standalone server
	MinSessionTimeout time.Duration
	MaxSessionTimeout time.Duration

	MaxClientCnxns         int           // per client address; 0: no limit
	MaxCnxns               int           // of all clients; 0: no limit
	MaxBuffer              int           // bytes of a request
	GlobalOutstandingLimit int           // writes in flight, over all connections of this member
	SnapCount              int           // log entries between snapshots
	StoreStallLimit        time.Duration // that writing or applying the log may hang
	LogKind                disk.LogKind  // "": as the folder is

	ConnOutstandingLimit int           // requests of one connection read and not answered
	ConnUnreadLimit      int           // bytes that a client may leave unread
	MultiOperationLimit  int           // operations of one multi
	ClientMemoryLimit    int           // bytes that all clients may have waiting or unread; 0: a share of the memory
	HandshakeTimeout     time.Duration // from accepting a connection to its session

	Whitelist      []string // four-letter words besides srvr; "*" for all
	SkipACL        bool
	SuperDigest    string // super:<digest>; "" for no super user
	Linearizable   bool   // reads wait for a proof that the leader leads
	ListenOnAllIPs bool   // listen for members on all interfaces, not on the own line's host
	NewEnsemble    bool   // bootstrap with a majority of empty members

	ExtendedTypes bool           // nodes with a time to live can be created
	EnforceQuota  bool           // hard limits of quotas hold
	Reaping       leader.Reaping // when containers and nodes with a time to live go

	// Accepted, and without effect as yet: the table of keys says so.
	Admin Admin

	newID  uint32 // to be written to DataDir/myid; 0: nothing
	idFrom string // what MyID was set by: a file, a variable or a flag
}

// Admin is where the AdminServer is to listen.
type Admin struct {
	Enable      bool
	Host        string
	Port        int
	URL         string
	IdleTimeout time.Duration
}

// Self is this member's own server line, if there is one.
func (c *Config) Self() (Server, bool) {
	for _, s := range c.Servers {
		if s.ID == c.MyID {
			return s, true
		}
	}
	return Server{}, false
}

// Warning is about something in a configuration that works otherwise than whoever wrote
// it may think. It does not keep a member from starting.
type Warning struct {
	Where string // "zoo.cfg:12", "ZOO_MY_ID", "-set", or the file as a whole
	Text  string
}

func (w Warning) String() string { return w.Where + ": " + w.Text }

// Flags are the settings of a command line. They win over every other source. The zero
// value is a command line without flags.
type Flags struct {
	settings    []setting
	client      string
	myID        string
	newEnsemble bool
}

// Register makes fs fill in f.
func (f *Flags) Register(fs *flag.FlagSet) {
	alias := func(name, key, usage string) {
		fs.Func(name, usage, func(value string) error {
			f.settings = append(f.settings, setting{key, value, "-" + name})
			return nil
		})
	}
	alias("data", "dataDir", "`folder` of this member's data (dataDir)")
	alias("tick", "tickTime", "tickTime in `ms`")
	fs.StringVar(&f.client, "client", "", "`host:port` where clients connect (clientPortAddress, clientPort)")
	fs.StringVar(&f.myID, "myid", "", "`number` of this member, instead of that in dataDir/myid")
	fs.BoolVar(&f.newEnsemble, "new-ensemble", false, "let a majority of members without data begin a new ensemble")
	fs.Func("set", "`key=value` as in zoo.cfg; may be repeated", func(text string) error {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return errors.New("allowed is key=value")
		}
		f.settings = append(f.settings, setting{strings.TrimSpace(key), strings.TrimSpace(value), "-set"})
		return nil
	})
}

// Load puts a configuration together: from file or, if that is "", from zoo.cfg in
// $ZOO_CONF_DIR or, if there is none, from the ZOO_* variables in env. Java properties in
// JVMFLAGS fill in what these leave open; flags win over all. It reads files and writes
// none. The warnings are good with an error, too.
func Load(file string, env []string, flags Flags) (Config, []Warning, error) {
	vars := readEnviron(env)
	base, name, err := vars.base(file)
	if err != nil {
		return Config{}, vars.warnings, err
	}
	var all settings
	all.warnings = vars.warnings
	for _, layer := range [][]setting{vars.javaProperties(), base, flags.settings} {
		if err := all.add(layer); err != nil {
			return Config{}, all.warnings, err
		}
	}
	d := newDraft(name, vars, flags, all.warnings)
	if err := d.accept(all.list); err != nil {
		return Config{}, d.warnings, err
	}
	if err := d.finish(); err != nil {
		return Config{}, d.warnings, err
	}
	return d.Config, d.warnings, nil
}

// settings are those of all sources, each key once.
type settings struct {
	list     []setting
	warnings []Warning
}

// add lays one source over those before it. Within a source the last one wins, as for
// Java, but a server line that is lost is an error.
func (all *settings) add(layer []setting) error {
	at := make(map[string]int) // key → place in list
	for i, s := range all.list {
		at[s.key] = i
	}
	seen := make(map[string]string) // key → where in this layer
	for _, s := range layer {
		s.key = canonical(s.key)
		if first, ok := seen[s.key]; ok {
			if strings.HasPrefix(s.key, "server.") {
				return fmt.Errorf("%s: %s is named twice, first in %s", s.where, s.key, first)
			}
			all.warnings = append(all.warnings, Warning{s.where, fmt.Sprintf("%s again, first in %s: this one holds", s.key, first)})
		}
		seen[s.key] = s.where
		if i, ok := at[s.key]; ok {
			all.list[i] = s
			continue
		}
		at[s.key] = len(all.list)
		all.list = append(all.list, s)
	}
	return nil
}

// draft is a Config in the making.
type draft struct {
	Config
	name     string // of the main source: errors about what is missing begin with it
	vars     environ
	flags    Flags
	where    map[string]string // key → where it was set
	warnings []Warning

	clientPort        int    // -1: not set
	clientHost        string // clientPortAddress
	standaloneEnabled bool
	dynamicFile       string
}

func newDraft(name string, vars environ, flags Flags, warnings []Warning) *draft {
	return &draft{
		Config: Config{
			Tick:           3 * time.Second,
			MaxClientCnxns: 60, MaxBuffer: defaultMaxBuffer, GlobalOutstandingLimit: 1000, SnapCount: 100_000,
			StoreStallLimit:      3 * time.Second,
			ConnOutstandingLimit: 128, ConnUnreadLimit: 16 << 20, MultiOperationLimit: 10_000, HandshakeTimeout: 10 * time.Second,
			NewEnsemble: flags.newEnsemble,
			Reaping:     leader.Reaping{Interval: time.Minute, PerMinute: 10_000},
			Admin:       Admin{Enable: true, Host: "127.0.0.1", Port: 8080, URL: "/commands", IdleTimeout: 30 * time.Second},
		},
		name: name, vars: vars, flags: flags, warnings: warnings, where: make(map[string]string),
		clientPort: -1, clientHost: allHosts, standaloneEnabled: true,
	}
}

func (d *draft) warn(where, format string, args ...any) {
	d.warnings = append(d.warnings, Warning{where, fmt.Sprintf(format, args...)})
}

// accept takes the settings one by one.
func (d *draft) accept(list []setting) error {
	for _, s := range list {
		d.where[s.key] = s.where
		k := lookup(s.key)
		if k == nil {
			d.warn(s.where, "unknown key %s", brief(s.key))
			continue
		}
		warning, err := k.accept(d, s)
		if err != nil {
			return err
		}
		if warning != "" {
			d.warn(s.where, "%s", warning)
		}
	}
	return nil
}

// finish checks what concerns several settings and fills in what follows from them.
func (d *draft) finish() error {
	for _, step := range []func() error{
		d.finishFolders, d.finishTimes, d.readDynamic, d.finishServers, d.finishID, d.finishClient,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// at is where a key was set.
func (d *draft) at(key string) string { return cmp.Or(d.where[key], d.name) }

func (d *draft) finishFolders() error {
	if d.DataDir == "" {
		return fmt.Errorf("%s: dataDir is not set", d.name)
	}
	d.DataLogDir = cmp.Or(d.DataLogDir, d.DataDir)
	for _, dir := range []*string{&d.DataDir, &d.DataLogDir} {
		absolute, err := filepath.Abs(*dir)
		if err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
		*dir = absolute
	}
	return nil
}

func (d *draft) finishTimes() error {
	d.MinSessionTimeout = cmp.Or(d.MinSessionTimeout, 2*d.Tick)
	d.MaxSessionTimeout = cmp.Or(d.MaxSessionTimeout, 20*d.Tick)
	if d.MinSessionTimeout > d.MaxSessionTimeout {
		where := cmp.Or(d.where["minSessionTimeout"], d.at("maxSessionTimeout"))
		return fmt.Errorf("%s: minSessionTimeout is %d ms, maxSessionTimeout %d ms: allowed is minimum up to maximum",
			where, d.MinSessionTimeout.Milliseconds(), d.MaxSessionTimeout.Milliseconds())
	}
	return nil
}

// readDynamic reads the server lines of dynamicConfigFile, which may hold nothing else.
func (d *draft) readDynamic() error {
	if d.dynamicFile == "" {
		return nil
	}
	if len(d.Servers) > 0 {
		return fmt.Errorf("%s: with dynamicConfigFile, server lines stand there alone; server.%d is in %s",
			d.at("dynamicConfigFile"), d.Servers[0].ID, d.at(fmt.Sprintf("server.%d", d.Servers[0].ID)))
	}
	lines, err := readZooCfg(d.dynamicFile)
	if err != nil {
		return fmt.Errorf("%s: dynamicConfigFile: %w", d.at("dynamicConfigFile"), err)
	}
	var all settings
	if err := all.add(lines); err != nil {
		return err
	}
	for _, s := range all.list {
		if k := lookup(s.key); k == nil || !slices.Contains([]string{"server.N", "group.N", "weight.N"}, k.name) {
			return fmt.Errorf("%s: %s: allowed are server lines only", s.where, brief(s.key))
		}
	}
	if err := d.accept(all.list); err != nil {
		return err
	}
	if len(d.Servers) == 0 {
		return fmt.Errorf("%s: no server line in it", d.dynamicFile)
	}
	return nil
}

// finishServers decides between standalone and ensemble, as ZooKeeper does.
func (d *draft) finishServers() error {
	slices.SortFunc(d.Servers, func(a, b Server) int { return cmp.Compare(a.ID, b.ID) })
	isObserver := func(s Server) bool { return s.Observer }
	if first := slices.IndexFunc(d.Servers, isObserver); first >= 0 {
		if !slices.ContainsFunc(d.Servers, func(s Server) bool { return !s.Observer }) {
			return fmt.Errorf("%s: only observers: an ensemble needs participants", d.name)
		}
		id := d.Servers[first].ID
		return fmt.Errorf("%s: server.%d is an observer: observers are not served yet", d.at(fmt.Sprintf("server.%d", id)), id)
	}
	voters := len(d.Servers)
	if voters == 0 && !d.standaloneEnabled {
		return fmt.Errorf("%s: standaloneEnabled=false needs a server line", d.at("standaloneEnabled"))
	}
	d.Standalone = voters == 0 || voters == 1 && d.standaloneEnabled
	if d.Standalone {
		if voters == 1 {
			d.warn(d.name, "one server line: this is a standalone server (standaloneEnabled=false makes an ensemble of one)")
		}
		return nil
	}
	switch {
	case voters == 2:
		d.warn(d.name, "2 members: the ensemble stops when one of them does")
	case voters%2 == 0:
		d.warn(d.name, "%d members tolerate no more failures than %d", voters, voters-1)
	}
	for _, limit := range []struct {
		key   string
		ticks int
	}{{"initLimit", d.InitLimit}, {"syncLimit", d.SyncLimit}} {
		if limit.ticks == 0 {
			return fmt.Errorf("%s: %s is not set: an ensemble needs it, 1 to %d ticks", d.at(limit.key), limit.key, maxTicks)
		}
	}
	if err := checkAddresses(d.Servers); err != nil {
		return fmt.Errorf("%s: %w", d.name, err)
	}
	return nil
}

// finishID finds out which member this is.
func (d *draft) finishID() error {
	most := uint32(maxServerID)
	if d.ExtendedTypes {
		most-- // as for ZooKeeper: TTL nodes take the topmost number for themselves
	}
	for _, s := range d.Servers {
		if s.ID > most {
			return fmt.Errorf("%s: server.%d: with extendedTypesEnabled allowed is 1 to %d", d.at(fmt.Sprintf("server.%d", s.ID)), s.ID, most)
		}
	}
	path := filepath.Join(d.DataDir, "myid")
	onDisk, err := readMyID(path, most)
	if err != nil {
		return err
	}
	fromEnv, err := d.vars.myID(most)
	if err != nil {
		return err
	}
	d.MyID, d.idFrom = onDisk, path
	if onDisk == 0 {
		d.MyID, d.newID, d.idFrom = fromEnv, fromEnv, "ZOO_MY_ID"
	}
	if d.flags.myID != "" {
		id, err := parseID(d.flags.myID, most)
		if err != nil {
			return fmt.Errorf("-myid %s: allowed is %w", brief(d.flags.myID), err)
		}
		if onDisk != 0 && id != onDisk {
			d.warn("-myid", "%s says %d; %d holds", path, onDisk, id)
		}
		d.MyID, d.newID, d.idFrom = id, 0, "-myid"
	} else if v, set := d.vars.get("ZOO_MY_ID"); set && onDisk != 0 && fromEnv != 0 && fromEnv != onDisk {
		d.warn("ZOO_MY_ID", "it is %s, and %s says %d, which holds", v, path, onDisk)
	}
	if d.Standalone {
		d.standaloneID()
		return nil
	}
	if d.MyID == 0 {
		return fmt.Errorf("%s is missing: it must hold the number of this member, 1 to %d", path, most)
	}
	if _, ok := d.Self(); !ok {
		return fmt.Errorf("%s: this is member %d (%s), and there is no server.%d: correct one of the two", d.name, d.MyID, d.idFrom, d.MyID)
	}
	return nil
}

// standaloneID settles the number of a standalone server, which ZooKeeper does not need.
func (d *draft) standaloneID() {
	if len(d.Servers) == 0 {
		if d.MyID == 0 {
			d.MyID, d.idFrom = 1, "the default of a standalone server"
		}
		return
	}
	id := d.Servers[0].ID
	if d.MyID != 0 && d.MyID != id {
		d.warn(d.name, "this is member %d, and the only server line is server.%d, which holds", d.MyID, id)
	}
	d.MyID, d.idFrom = id, d.name
}

// readMyID returns the number in the first line of the file at path, 0 if there is no file.
func readMyID(path string, most uint32) (uint32, error) {
	const enough = 64 // three digits, and blanks
	text, err := readStart(path, enough)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	id, err := parseID(strings.TrimSpace(line), most)
	if err != nil {
		return 0, fmt.Errorf("%s: %q: allowed is a number from %w", path, brief(line), err)
	}
	return id, nil
}

// finishClient finds out where clients connect.
func (d *draft) finishClient() error {
	if d.clientPort < 0 && d.where["clientPortAddress"] != "" {
		return fmt.Errorf("%s: clientPortAddress without clientPort", d.at("clientPortAddress"))
	}
	if d.clientPort >= 0 {
		d.ClientAddr = join(d.clientHost, d.clientPort)
	}
	self, _ := d.Self()
	if line := self.ClientAddr(); line != "" {
		same := d.clientPort == self.ClientPort && (d.clientHost == allHosts || strings.EqualFold(d.clientHost, self.ClientHost))
		if d.clientPort >= 0 && !same && d.flags.client == "" {
			return fmt.Errorf("%s: clients at %s, but server.%d says %s", d.at("clientPort"), d.ClientAddr, self.ID, line)
		}
		d.ClientAddr = line
	}
	if d.flags.client != "" {
		h, port, err := net.SplitHostPort(d.flags.client)
		if err != nil {
			return fmt.Errorf("-client %s: allowed is host:port", brief(d.flags.client))
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return fmt.Errorf("-client %s: port: allowed is 0 to %d", brief(d.flags.client), maxPort)
		}
		if h, err = parseHost(cmp.Or(h, allHosts)); err != nil {
			return fmt.Errorf("-client: %w", err)
		}
		d.ClientAddr = join(h, int(n))
	}
	if d.ClientAddr == "" {
		d.warn(d.name, "no clientPort: no client can connect here")
	}
	return nil
}
