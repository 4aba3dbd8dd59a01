package queue

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// namePrefix begins the names of all elements. Curator's takers do not touch others.
const namePrefix = "queue-"

// namePrefixOf returns the name of an element without its sequence number.
func namePrefixOf(priority int32, prioritized bool) string {
	switch {
	case !prioritized:
		return namePrefix
	case priority < 0:
		return fmt.Sprintf("%s0%08X", namePrefix, uint32(priority))
	}
	return fmt.Sprintf("%s1%08X", namePrefix, priority)
}

// These are the parts of an element's data.
const (
	itemsVersion = 0x00010001
	itemOpcode   = 1
	endOpcode    = 2
)

// itemOverhead is the number of bytes that the data of an element with one item have beside the item.
const itemOverhead = 10

// encodeItem returns the data of an element with one item.
func encodeItem(item []byte) []byte {
	data := make([]byte, 0, len(item)+itemOverhead)
	data = binary.BigEndian.AppendUint32(data, itemsVersion)
	data = append(data, itemOpcode)
	data = binary.BigEndian.AppendUint32(data, uint32(len(item)))
	return append(append(data, item...), endOpcode)
}

// ErrMalformed means that an element's data are not in Curator's form.
var ErrMalformed = errors.New("the data are not items in Curator's form")

// decodeItems returns the items in an element's data. They share its memory.
func decodeItems(data []byte) (items [][]byte, err error) {
	if len(data) < 4 || binary.BigEndian.Uint32(data) != itemsVersion {
		return nil, fmt.Errorf("%w: version %.4x, want %08x", ErrMalformed, data, itemsVersion)
	}
	for rest := data[4:]; ; {
		switch {
		case len(rest) > 0 && rest[0] == endOpcode:
			return items, nil
		case len(rest) < 5 || rest[0] != itemOpcode:
			return nil, fmt.Errorf("%w: no item and no end at byte %d of %d", ErrMalformed, len(data)-len(rest), len(data))
		}
		length := int64(binary.BigEndian.Uint32(rest[1:]))
		if rest = rest[5:]; length > int64(len(rest)) {
			return nil, fmt.Errorf("%w: an item of %d bytes in %d", ErrMalformed, length, len(data))
		}
		items, rest = append(items, rest[:length:length]), rest[length:]
	}
}
