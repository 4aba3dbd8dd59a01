package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"rollcall/internal/durable"
	"rollcall/internal/serverlist"
)

// maxIDWithTTLNodes is the highest number of a server with extendedTypesEnabled. As for ZooKeeper, TTL nodes take the
// topmost one for themselves.
const maxIDWithTTLNodes = serverlist.MaxID - 1

// errZeroID is the advice for a member that had the number 0 in ZooKeeper.
var errZeroID = errors.New("in place of ZooKeeper's 0, it is the number of this member's server line")

// parseOwnID is serverlist.ParseID for the number of this member.
func parseOwnID(text string, most uint32) (uint32, error) {
	id, err := serverlist.ParseID(text, most)
	if err != nil && isZero(text) {
		err = fmt.Errorf("%w; %w", err, errZeroID)
	}
	return id, err
}

func (d *rawConfig) setMemberID() error {
	most := uint32(serverlist.MaxID)
	if d.config.Rules.TTLNodes {
		most = maxIDWithTTLNodes
	}
	for _, s := range d.config.Servers {
		if s.ID > most {
			return fmt.Errorf("%s: server.%d: with extendedTypesEnabled, N must be 1 to %d",
				d.whereSet(fmt.Sprintf("server.%d", s.ID)), s.ID, most)
		}
	}
	path := filepath.Join(d.config.Dir, "myid")
	onDisk, err := readMyID(path, most)
	if err != nil {
		return err
	}
	if d.idFromHost {
		if err := d.setIDFromHostName(path, onDisk, most); err != nil {
			return err
		}
	} else if err := d.setIDFromEnviron(path, onDisk, most); err != nil {
		return err
	}
	if d.flags.myID != "" {
		id, err := parseOwnID(d.flags.myID, most)
		if err != nil {
			return fmt.Errorf("--myid %s: must be %w", ShortText(d.flags.myID), err)
		}
		if onDisk != 0 && id != onDisk {
			d.addWarning("--myid", "%s says %d; %d counts", path, onDisk, id)
		}
		d.config.MyID, d.config.idToSave, d.config.IDSource = id, 0, "--myid"
	}
	if d.config.Standalone {
		d.setStandaloneID()
		return nil
	}
	if d.config.MyID == 0 {
		return fmt.Errorf("%s is missing: it must hold the number of this member, 1 to %d", path, most)
	}
	if d.config.SelfJoin.Auto {
		if d.config.Servers, err = d.own.line.addTo(d.config.Servers, d.config.MyID, d.config.IDSource); err != nil {
			return fmt.Errorf("%s: members.line: %w", d.whereSet("members.line"), err)
		}
	}
	if _, ok := d.config.Servers.Find(d.config.MyID); !ok {
		return fmt.Errorf("%s: this is member %d (%s), and there is no server.%d: correct one of the two", d.sourceName,
			d.config.MyID, d.config.IDSource, d.config.MyID)
	}
	return nil
}

// setIDFromEnviron sets onDisk, which is the number in the file at path, or else the number in the environment.
func (d *rawConfig) setIDFromEnviron(path string, onDisk, most uint32) error {
	fromEnv, err := d.environ.idFromVariable(most)
	if err != nil {
		return err
	}
	d.config.MyID, d.config.IDSource = onDisk, path
	if onDisk == 0 {
		d.config.MyID, d.config.idToSave, d.config.IDSource = fromEnv, fromEnv, "ZOO_MY_ID"
	} else if v, set := d.environ.lookupVariable("ZOO_MY_ID"); set && fromEnv != 0 && fromEnv != onDisk &&
		d.flags.myID == "" {
		d.addWarning("ZOO_MY_ID", "it is %s, and %s says %d, which counts", v, path, onDisk)
	}
	return nil
}

// setIDFromHostName sets the number in the name of this machine. A number in the file at path, onDisk, must agree,
// because the directory of another member may be mounted here.
func (d *rawConfig) setIDFromHostName(path string, onDisk, most uint32) error {
	name, _ := d.environ.lookupVariable("HOSTNAME")
	if name == "" {
		var err error
		if name, err = os.Hostname(); err != nil {
			return fmt.Errorf("%s: serverIdFromHostname: %w", d.whereSet("serverIdFromHostname"), err)
		}
	}
	id, err := parseHostID(name, most)
	if err != nil {
		return fmt.Errorf("%s: serverIdFromHostname: %w", d.whereSet("serverIdFromHostname"), err)
	}
	if onDisk != 0 && onDisk != id && d.flags.myID == "" {
		return fmt.Errorf("%s: it says %d, and the host name %s stands for member %d: this is the directory of another "+
			"member; give each member its own", path, onDisk, ShortText(name), id)
	}
	d.config.MyID, d.config.idToSave, d.config.IDSource = id, id, "the host name "+ShortText(name)
	if onDisk != 0 {
		d.config.idToSave = 0
	}
	return nil
}

// parseHostID returns one more than the number after the last dash of a host name's first label.
func parseHostID(name string, most uint32) (uint32, error) {
	label, _, _ := strings.Cut(name, ".")
	ordinal, err := strconv.ParseUint(label[strings.LastIndexByte(label, '-')+1:], 10, 8)
	if err != nil || uint32(ordinal) >= most || !strings.Contains(label, "-") {
		return 0, fmt.Errorf("host name %s: must end in a dash and a number from 0 to %d, such as rollcall-0",
			ShortText(name), most-1)
	}
	return uint32(ordinal) + 1, nil
}

// setStandaloneID sets the number of a standalone server, which needs none in ZooKeeper.
func (d *rawConfig) setStandaloneID() {
	if len(d.config.Servers) == 0 {
		if d.config.MyID == 0 {
			d.config.MyID, d.config.IDSource = 1, "the default of a standalone server"
		}
		return
	}
	id := d.config.Servers[0].ID
	if d.config.MyID != 0 && d.config.MyID != id {
		d.addWarning(d.sourceName, "this is member %d, and the only server line is server.%d, which counts", d.config.MyID, id)
	}
	d.config.MyID, d.config.IDSource = id, d.sourceName
}

// readMyID returns the number in the first line of the file at path, or 0 if there is no file.
func readMyID(path string, most uint32) (uint32, error) {
	const enough = 64 // three digits, and blanks
	text, err := readPrefix(path, enough)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, withAdvice(err, "dataDir must be a directory, and its myid a file that this user may read, with the "+
			"number of this member")
	}
	line, _, _ := strings.Cut(string(text), "\n")
	id, err := parseOwnID(strings.TrimSpace(line), most)
	if err != nil {
		return 0, fmt.Errorf("%s: %q: must be a number from %w", path, ShortText(line), err)
	}
	return id, nil
}

// idFromVariable returns the member's number in the environment, or 0 if there is none.
func (e *environ) idFromVariable(most uint32) (uint32, error) {
	text, set := e.lookupVariable("ZOO_MY_ID")
	if e.fileNamed || !set && !e.isMainSource {
		return 0, nil
	}
	id, err := parseOwnID(cmp.Or(strings.TrimSpace(text), "1"), most)
	if err != nil {
		return 0, fmt.Errorf("ZOO_MY_ID=%s: must be %w", ShortText(text), err)
	}
	return id, nil
}

// SaveMyID writes Dir/myid, and makes the directory, if the number came from ZOO_MY_ID or from the host name and Load
// found no such file. It does not replace a file that exists by now. When SaveMyID returns, the file is durable.
func (c *Config) SaveMyID() error {
	if c.idToSave == 0 {
		return nil
	}
	return withAdvice(writeMyID(c.Dir, c.idToSave),
		"dataDir must be a directory that this user may make and write: the number of this member is kept there")
}

func writeMyID(dir string, id uint32) error {
	if err := durable.MakeDirectory(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "myid.*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = fmt.Fprintln(f, id)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Link(f.Name(), filepath.Join(dir, "myid")); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return durable.SyncDirectory(dir)
}

// withAdvice adds advice to the error of a file or directory. It does not change other errors.
func withAdvice(err error, advice string) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return fmt.Errorf("%w; %s", err, advice)
	}
	return err
}
