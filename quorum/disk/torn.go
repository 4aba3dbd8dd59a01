package disk

import "fmt"

// sectorSize is the smallest part of a file that a disk writes as a whole, in bytes.
const sectorSize = 512

// tornTail decides about what follows the last whole batch of the last segment, at offset end of its contents b. It
// reports whether a torn batch follows, which was never acknowledged. It returns an error if that is not possible: then b
// is damaged. See docs/dev/log.md.
func (s *segment) tornTail(b []byte, end int) (torn bool, err error) {
	if isZero(b[end:]) {
		return false, nil
	}
	if err := s.checkTorn(b, end); err != nil {
		return false, err
	}
	for at := end + recordAlignment; at+recordHeaderSize <= len(b); at += recordAlignment {
		if r, ok := parseRecord(b[at:], s.checksum); ok && r.batch > end {
			return false, fmt.Errorf("%w: the batch at byte %d is not whole, and another one follows at byte %d", ErrDamaged,
				end, r.batch)
		}
	}
	return true, nil
}

// checkTorn returns an error unless the first record that does not check, of the batch at offset end, lacks a sector. No part of a
// record that was written is zeros from an edge of a sector, or from its own start, to the next edge or its end: that of a
// header has its kind or its checksum, and for a payload see maskPayload.
func (s *segment) checkTorn(b []byte, end int) error {
	at := end
	for {
		r, ok := parseRecord(b[at:], s.checksum)
		if !ok {
			return requireLostSector(b, at, at+recordHeaderSize)
		}
		if r.batch != end || at+r.length() > len(b) {
			break
		}
		if !r.isWhole(b[at:]) {
			return requireLostSector(b, at+recordHeaderSize, at+r.length())
		}
		if r.flags&lastOfBatch != 0 {
			break
		}
		at += r.length()
	}
	return fmt.Errorf("%w: the record at byte %d does not follow the one before it", ErrDamaged, at)
}

// requireLostSector returns an error unless a sector of b, or the part of one that lies between the offsets from and to, has
// only zeros.
func requireLostSector(b []byte, from, to int) error {
	for at := from; at < min(to, len(b)); {
		next := min(to, len(b), (at/sectorSize+1)*sectorSize)
		if isZero(b[at:next]) {
			return nil
		}
		at = next
	}
	return fmt.Errorf("%w: the record at byte %d does not match its checksum", ErrDamaged, from)
}

func isZero(b []byte) bool {
	for len(b) >= 8 {
		if b[0]|b[1]|b[2]|b[3]|b[4]|b[5]|b[6]|b[7] != 0 {
			return false
		}
		b = b[8:]
	}
	for _, v := range b {
		if v != 0 {
			return false
		}
	}
	return true
}
