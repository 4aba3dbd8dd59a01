package target

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"rollcall/internal/durable"
	"rollcall/internal/secretfile"
)

// The files of a journal.
const (
	journalFile = "journal"
	newFile     = "journal.new" // the next content of journalFile, until it is complete
	lockFile    = "lock"        // locked while a process has the journal; it has a line about that process
)

// maxJournalBytes is far more than the faults of one drill take, which breaks one or a few things at a time.
const maxJournalBytes = 4 << 20

// Entry is something that was made and has to be undone: a fault, a process, a network namespace, a directory.
type Entry struct {
	ID    int       `json:"id"` // from 1; grows
	At    time.Time `json:"at"`
	What  string    `json:"what"`            // for people: "stop of member 2"
	Fault *Fault    `json:"fault,omitempty"` // nil: not a fault, but a part of an ensemble that a drill started
	Undo  []Step    `json:"undo,omitempty"`  // in this order
}

// Journal lists what has to be undone, in a directory that outlives the process. Each entry is on the disk before its
// fault is made. One process at a time has the journal of a directory. Not safe for concurrent use.
type Journal struct {
	dir     string
	lock    *os.File
	last    int // the greatest ID so far
	entries []Entry
	damaged []damagedLine // kept as they are
}

// damagedLine is a line of the file that cannot be read.
type damagedLine struct {
	number int
	text   string
}

// ErrBusy says that another process has the journal.
var ErrBusy = errors.New("another drill runs")

// StateDirectory returns the default directory for a journal: $XDG_STATE_HOME/rollcall/drills, or else
// ~/.local/state/rollcall/drills.
func StateDirectory() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) { // as its specification says, another path does not count
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no directory for what drills break: %w; set XDG_STATE_HOME, or name a directory", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "rollcall", "drills"), nil
}

// OpenJournal opens the journal in dir, and makes dir if it is missing. It returns ErrBusy if another process has it.
// The journal has commands that Heal runs, so other users must not be able to write in dir.
func OpenJournal(dir string) (*Journal, error) {
	dir, err := secretfile.MakeTrustedDirectory(dir)
	if err != nil {
		return nil, fmt.Errorf("journal of drills: %w", err)
	}
	j := &Journal{dir: dir}
	if err := j.takeLock(); err != nil {
		return nil, fmt.Errorf("journal of drills: %w", err)
	}
	if err := j.readFile(); err != nil {
		return nil, errors.Join(fmt.Errorf("journal of drills: %w", err), j.Close())
	}
	return j, nil
}

func (j *Journal) takeLock() error {
	lock, err := os.OpenFile(filepath.Join(j.dir, lockFile), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	const maxLine = 200 // bytes
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		about, rerr := io.ReadAll(io.LimitReader(lock, maxLine))
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("%w: %s has %s; wait for it, or end it", ErrBusy, strings.TrimSpace(string(about)), j.dir)
		}
		return errors.Join(err, rerr, lock.Close())
	}
	about := fmt.Sprintf("process %d, begun at %s,", os.Getpid(), time.Now().Format(time.DateTime))
	err = lock.Truncate(0)
	if err == nil {
		_, err = lock.WriteAt([]byte(about+"\n"), 0)
	}
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	j.lock = lock
	return nil
}

// readFile reads the file. A line that cannot be read goes into damaged.
func (j *Journal) readFile() error {
	path := filepath.Join(j.dir, journalFile)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxJournalBytes+1))
	switch {
	case err != nil:
		return err
	case len(text) > maxJournalBytes:
		return fmt.Errorf("%s has more than %d bytes, so no drill wrote it; look what it is, and move it away", path,
			maxJournalBytes)
	}
	for i, line := range slices.Collect(bytes.Lines(text)) {
		e, ok := parseEntry(string(bytes.TrimSuffix(line, []byte("\n"))))
		if !ok {
			j.damaged = append(j.damaged, damagedLine{i + 1, strings.TrimSuffix(string(line), "\n")})
			continue
		}
		j.entries = append(j.entries, e)
		j.last = max(j.last, e.ID)
	}
	return nil
}

// toLine returns an entry as a line of the file: the checksum of the JSON, and the JSON.
func (e Entry) toLine() (string, error) {
	text, err := json.Marshal(e)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%08x %s", crc32.ChecksumIEEE(text), text), nil
}

func parseEntry(line string) (e Entry, ok bool) {
	sum, text, _ := strings.Cut(line, " ")
	want, err := strconv.ParseUint(sum, 16, 32)
	if err != nil || crc32.ChecksumIEEE([]byte(text)) != uint32(want) {
		return Entry{}, false
	}
	return e, json.Unmarshal([]byte(text), &e) == nil
}

// Entries returns the faults that have to be undone, in the order in which they were made.
func (j *Journal) Entries() []Entry { return slices.Clone(j.entries) }

// CheckClean returns an error if something has to be undone that another process left behind, or if a line cannot be
// read.
func (j *Journal) CheckClean() error {
	if err := j.damageError(); err != nil {
		return err
	}
	if len(j.entries) > 0 {
		return fmt.Errorf("an earlier drill ended before it could repair what it broke (%s, at %s; %d entries in %s): "+
			"run `rollcall drill heal`", j.entries[len(j.entries)-1].What,
			j.entries[len(j.entries)-1].At.Local().Format(time.DateTime), len(j.entries),
			filepath.Join(j.dir, journalFile))
	}
	return nil
}

// damageError returns an error if a line cannot be read.
func (j *Journal) damageError() error {
	if len(j.damaged) == 0 {
		return nil
	}
	var numbers []string
	for _, line := range j.damaged {
		numbers = append(numbers, strconv.Itoa(line.number))
	}
	return fmt.Errorf("%s: line %s cannot be read, because the file was damaged or changed: what it says is broken stays "+
		"broken. Read the line, repair that by hand, and then remove the line", filepath.Join(j.dir, journalFile),
		strings.Join(numbers, ", "))
}

// Add writes an entry, and returns it when it is on the disk. undo gets the entry's ID.
func (j *Journal) Add(what string, f *Fault, undo func(id int) []Step) (Entry, error) {
	e := Entry{ID: j.last + 1, At: time.Now().UTC().Round(time.Millisecond), What: what, Fault: f, Undo: undo(j.last + 1)}
	if err := j.replaceFile(append(slices.Clip(j.entries), e)); err != nil {
		return Entry{}, fmt.Errorf("journal of drills: %w; nothing was broken", err)
	}
	j.last = e.ID
	return e, nil
}

// Remove takes out an entry that was undone.
func (j *Journal) Remove(id int) error {
	rest := slices.DeleteFunc(slices.Clone(j.entries), func(e Entry) bool { return e.ID == id })
	if err := j.replaceFile(rest); err != nil {
		return fmt.Errorf("journal of drills: %w", err)
	}
	return nil
}

// replaceFile makes entries the content of the file, durably. A crash leaves the former content or this one.
func (j *Journal) replaceFile(entries []Entry) error {
	var text strings.Builder
	for _, line := range j.damaged {
		text.WriteString(line.text + "\n")
	}
	for _, e := range entries {
		line, err := e.toLine()
		if err != nil {
			return err
		}
		text.WriteString(line + "\n")
	}
	if text.Len() > maxJournalBytes {
		return fmt.Errorf("%d entries would be more than %d bytes; repair something first", len(entries), maxJournalBytes)
	}
	path := filepath.Join(j.dir, newFile)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text.String())
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path, filepath.Join(j.dir, journalFile)); err != nil {
		return err
	}
	j.entries = entries
	return durable.SyncDirectory(j.dir)
}

// Heal undoes all entries, the last one first, and takes each out when it is undone. It continues after an error.
// It returns what was undone, and an error about the rest, and about lines that cannot be read. It blocks until
// the steps have ended, each of which has its own limit.
func (j *Journal) Heal(ctx context.Context) (healed []string, err error) {
	var failed []error
	for _, e := range slices.Backward(slices.Clone(j.entries)) {
		err := runSteps(ctx, e.Undo)
		if err == nil {
			err = j.Remove(e.ID)
		}
		if err != nil {
			at := e.At.Local().Format(time.DateTime)
			failed = append(failed, fmt.Errorf("%s (at %s) is not repaired: %w. Heal again; if it cannot succeed, repair that by "+
				"hand, and then remove the line with \"id\":%d from %s", e.What, at, err, e.ID, filepath.Join(j.dir, journalFile)))
			continue
		}
		healed = append(healed, e.What)
	}
	return healed, errors.Join(append(failed, j.damageError())...)
}

// Close lets another process have the journal. What has to be undone stays in it.
func (j *Journal) Close() error { return j.lock.Close() }
