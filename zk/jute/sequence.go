package jute

import (
	"math"
	"strconv"
)

// MaxZooKeeperSequence is the last number that ZooKeeper appends to the name of a sequential node. Rollcall's go on after
// it if its configuration allows that.
const MaxZooKeeperSequence = math.MaxInt32

// A number has ten digits. From firstLongSequence on it has 19, because longSequenceOffset is added: it begins with 9, as
// no shorter one does. So each later name comes after all earlier ones, whether clients compare the text or the numbers.
// Ten digits last as long as they can, because most clients expect them.
const (
	sequenceDigits     = 10
	longSequenceDigits = 19

	firstLongSequence  = 9_000_000_000
	longSequenceOffset = 9_000_000_000_000_000_000
)

// MaxSequence is the highest number for AppendSequence. With 50,000 creates in a second, a parent reaches it after
// 140,000 years.
const MaxSequence = math.MaxInt64 - longSequenceOffset

// AppendSequence appends number to the path of a sequential node. number must be 0 to MaxSequence.
func AppendSequence(path []byte, number int64) []byte {
	if number >= firstLongSequence {
		return strconv.AppendInt(path, longSequenceOffset+number, 10)
	}
	path = append(path, "0000000000"...)
	for i := len(path) - 1; number > 0; i-- {
		path[i] = '0' + byte(number%10)
		number /= 10
	}
	return path
}

// SequenceLengths are the numbers of digits that AppendSequence may append.
var SequenceLengths = [...]int{sequenceDigits, longSequenceDigits}

// ParseSequence returns the number that digits, as AppendSequence has appended them, stand for. Numbers are in the order
// in which a parent's children were created, but they are not always consecutive: those of 19 digits include an offset.
// ok is false if AppendSequence cannot have written digits.
func ParseSequence[T ~string | ~[]byte](digits T) (number int64, ok bool) {
	isLong := len(digits) == longSequenceDigits
	if len(digits) != sequenceDigits && !isLong || (digits[0] == '9') != isLong {
		return 0, false
	}
	sum := uint64(0) // 19 digits fit
	for i := range len(digits) {
		digit := digits[i] - '0'
		if digit > 9 {
			return 0, false
		}
		sum = 10*sum + uint64(digit)
	}
	if isLong && sum < longSequenceOffset+firstLongSequence {
		return 0, false
	}
	return int64(sum), sum <= math.MaxInt64
}

// SplitSequence splits the name of a sequential node into the text before the number, and the number as ParseSequence
// returns it. ok is false if the name does not end in a number. If more than 19 digits end the name, the last ten of them
// count as the number.
func SplitSequence(name string) (before string, number int64, ok bool) {
	for _, digits := range [...]int{longSequenceDigits, sequenceDigits} {
		at := len(name) - digits
		if at < 0 || digits == longSequenceDigits && at > 0 && name[at-1]-'0' <= 9 {
			continue
		}
		if number, ok = ParseSequence(name[at:]); ok {
			return name[:at], number, true
		}
	}
	return name, 0, false
}
