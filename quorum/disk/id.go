package disk

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/raft"
)

// ID identifies one data directory. It is drawn at random when the stable store is made, and again only when the directory
// is emptied (Data.Renew). raft's servers
// are disks, because raft's proof has no step in which a server forgets its votes and its log and keeps its name.
// The id is in the file that holds the votes, so a member that loses its votes also loses its name. No disk has
// the id zero.
type ID uint64

// String returns the id in 16 hexadecimal digits.
func (id ID) String() string {
	var bytes [8]byte
	binary.BigEndian.PutUint64(bytes[:], uint64(id))
	return hex.EncodeToString(bytes[:])
}

// keyDisk is the key of the ID in the stable store: 8 bytes, and a checksum of 4, because a disk with a changed id
// would vote again.
var keyDisk = []byte("RollcallDisk")

const idSize, idSumSize = 8, 4

// ensureDiskID returns the ID in a stable store. In a new store without one, it draws and stores one.
func ensureDiskID(s Stores) (ID, error) {
	id, err := existingDiskID(s)
	if err != nil || id != 0 {
		return id, err
	}
	return drawDiskID(s)
}

// drawDiskID draws an ID and stores it.
func drawDiskID(s Stores) (id ID, err error) {
	var b [idSize]byte
	for id == 0 {
		_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the program instead
		id = ID(binary.BigEndian.Uint64(b[:]))
	}
	if err := s.Stable.Set(keyDisk, binary.BigEndian.AppendUint32(b[:], crc32.ChecksumIEEE(b[:]))); err != nil {
		return 0, fmt.Errorf("quorum: write disk id: %w", err)
	}
	return id, nil
}

// existingDiskID returns the ID in a stable store, or 0 if the store is new. A used store without an ID is
// damaged.
func existingDiskID(s Stores) (ID, error) {
	id, err := readDiskID(s.Stable)
	if err != nil || id != 0 {
		return id, err
	}
	begun, err := hasStarted(s)
	if begun && err == nil {
		err = fmt.Errorf("quorum: data is %w: it has entries or votes, and no disk id", ErrDamaged)
	}
	return 0, err
}

func readDiskID(s raft.StableStore) (ID, error) {
	b, err := s.Get(keyDisk)
	switch {
	case isNotFound(err) || err == nil && len(b) == 0:
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("quorum: read disk id: %w", err)
	case len(b) != idSize+idSumSize || binary.BigEndian.Uint32(b[idSize:]) != crc32.ChecksumIEEE(b[:idSize]):
		return 0, fmt.Errorf("quorum: the disk id is %w: %x", ErrDamaged, b)
	}
	return ID(binary.BigEndian.Uint64(b)), nil
}

func hasStarted(s Stores) (bool, error) {
	if data, err := hasData(s); data || err != nil {
		return data, err
	}
	term, err := s.Stable.GetUint64(keyTerm)
	if err != nil && !isNotFound(err) {
		return false, fmt.Errorf("quorum: read state: %w", err)
	}
	return term != 0, nil
}

func (d *Data) ID() ID { return d.diskID }
