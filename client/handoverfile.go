package client

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// maxHandoverSize limits a Handover in bytes: some thousand rights. It bounds what a reader takes into memory.
const maxHandoverSize = 1 << 20

// handoverFormat begins a Handover as bytes. The number is that of the format.
const handoverFormat = "rollcall-handover-1"

// handoverRecord is a Handover as JSON.
type handoverRecord struct {
	Session   SessionID   `json:"session"`
	Password  []byte      `json:"password"`
	LastZxid  Zxid        `json:"lastZxid"`
	TimeoutMs int64       `json:"timeoutMs"`
	Chroot    string      `json:"chroot"`
	Held      []HeldRight `json:"held"`
	Expires   int64       `json:"expiresNs"`
	Boot      string      `json:"boot"`
}

// encodeFile returns the Handover as bytes: the format and the checksum of the rest, a newline, and JSON.
func (h *Handover) encodeFile() ([]byte, error) {
	if h.Password == nil {
		return nil, ErrHandoverGiven
	}
	body, _ := json.Marshal(handoverRecord{ // never fails: it has numbers and text only
		Session: h.Session, Password: h.Password, LastZxid: h.LastZxid, TimeoutMs: h.Timeout.Milliseconds(),
		Chroot: h.Chroot, Held: h.Held, Expires: int64(h.Expires), Boot: h.Boot,
	})
	text := fmt.Appendf(nil, "%s %s\n%s\n", handoverFormat, checksum(body), body)
	if len(text) > maxHandoverSize {
		return nil, fmt.Errorf("the hand-over of %d rights takes %d bytes; at most %d are allowed",
			len(h.Held), len(text), maxHandoverSize)
	}
	return text, nil
}

func checksum(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// decodeHandover reads what encode has written.
func decodeHandover(text []byte) (Handover, error) {
	head, body, _ := bytes.Cut(text, []byte("\n"))
	format, sum, _ := bytes.Cut(head, []byte(" "))
	body = bytes.TrimSuffix(body, []byte("\n"))
	if string(format) != handoverFormat {
		return Handover{}, fmt.Errorf("%w: it begins with %.40q, and must begin with %s", ErrHandoverDamaged, format,
			handoverFormat)
	}
	if checksum(body) != string(sum) {
		return Handover{}, fmt.Errorf("%w: its checksum is wrong", ErrHandoverDamaged)
	}
	var r handoverRecord
	if err := json.Unmarshal(body, &r); err != nil {
		return Handover{}, fmt.Errorf("%w: %w", ErrHandoverDamaged, err)
	}
	return Handover{
		Session: r.Session, Password: r.Password, LastZxid: r.LastZxid, Chroot: r.Chroot, Held: r.Held,
		Timeout: time.Duration(r.TimeoutMs) * time.Millisecond, Expires: time.Duration(r.Expires), Boot: r.Boot,
		received: true,
	}, nil
}

// WriteFile gives the Handover to the process that reads the file with ReadHandover. Only the user of this process can
// read the file (mode 0600). It appears at once and whole, and replaces one that is there. Its directory should be one
// that no other user can write to.
//
// The Handover is then the file's: h has no password any more. To take the session back, call ReadHandover; that fails
// if the successor has been faster. After an error h is as it was.
func (h *Handover) WriteFile(path string) error {
	text, err := h.encodeFile()
	if err == nil {
		err = writeWhole(path, text)
	}
	if err != nil {
		return fmt.Errorf("client: hand-over file %s: %w", path, err)
	}
	h.Password = nil
	return nil
}

// writeWhole makes a file of mode 0600 that appears with all its bytes. They need not reach the disk: after a crash of
// the machine the session is stale.
func writeWhole(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // a name of our own: if it stays, it does no harm
	}
	return err
}

// ReadHandover takes the Handover out of a file that WriteFile has made, and removes the file. Of several processes
// that read it, one gets the Handover. For the others the error is fs.ErrNotExist, as it is if there was no file: no
// predecessor has left a session.
//
// The error is ErrHandoverStale if the session has ended, and ErrHandoverDamaged if the file has other bytes than those
// that were written. The file must belong to the user of this process, and no other user may have permissions on it.
// On systems other than Unix, every file is rejected.
func ReadHandover(path string) (Handover, error) {
	h, err := takeFile(path)
	if err == nil {
		err = h.CheckFresh()
	}
	if err != nil {
		return Handover{}, fmt.Errorf("client: hand-over file %s: %w", path, err)
	}
	return h, nil
}

// takeFile moves the file to a name of its own before it reads it, so that no other process reads it too.
func takeFile(path string) (Handover, error) {
	taken := path + ".taken-" + rand.Text()
	if err := os.Rename(path, taken); err != nil {
		return Handover{}, errors.Unwrap(err)
	}
	defer func() { _ = os.Remove(taken) }() // if it stays, no process reads it again
	info, err := os.Lstat(taken)
	if err != nil {
		return Handover{}, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 || !ownFile(info) {
		return Handover{}, fmt.Errorf("its mode is %v; it must be a file of this user with mode 0600", info.Mode())
	}
	f, err := os.Open(taken)
	if err != nil {
		return Handover{}, err
	}
	defer func() { _ = f.Close() }() // was read only
	if opened, err := f.Stat(); err != nil || !os.SameFile(info, opened) {
		return Handover{}, errors.Join(errors.New("it was replaced while it was read"), err)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxHandoverSize+1))
	if err != nil {
		return Handover{}, err
	}
	if len(text) > maxHandoverSize {
		return Handover{}, fmt.Errorf("%w: it is longer than %d bytes", ErrHandoverDamaged, maxHandoverSize)
	}
	return decodeHandover(text)
}
