package config

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"rollcall/internal/serverlist"
	"rollcall/operator/admin"
	"rollcall/operator/logs"
	"rollcall/server/tenant"
	"rollcall/zk/digest"
)

// kind checks the values of a key and stores them. The zero kind takes any text and stores none.
type kind struct {
	allowed string // in words, for errors and the docs
	// parse checks a value and stores it in d. If it returns errAllowed, the operator's error is made of allowed.
	parse     func(d *rawConfig, s setting) error
	confText  func(d *rawConfig) string // the value as conf shows it; nil: conf does not show it
	secretKey string                    // secretKey a secretFile: the key whose value the file has
	// mayHoldSecret reports whether a value, which parse may reject, may have a secret in it; nil: none has.
	mayHoldSecret func(value string) bool
}

// errAllowed means that a value is none that its kind allows.
var errAllowed = errors.New("not allowed")

// The kinds below take the field of a rawConfig that they set. If it is nil, they only check the value.

func boolean(field func(*rawConfig) *bool) kind { return eitherWord("true", "false", field) }

func yesNo(field func(*rawConfig) *bool) kind { return eitherWord("yes", "no", field) }

// eitherWord takes one of two words, regardless of case. yes sets the field to true.
func eitherWord(yes, no string, field func(*rawConfig) *bool) kind {
	return kind{
		allowed: yes + " or " + no,
		parse: func(d *rawConfig, s setting) error {
			is := strings.EqualFold(s.value, yes)
			if !is && !strings.EqualFold(s.value, no) {
				return errAllowed
			}
			return storeValue(d, field, is)
		},
	}
}

// wholeNumber takes a decimal number between least and most.
func wholeNumber[T int | int64 | uint64](least, most int64, field func(*rawConfig) *T) kind {
	return kind{
		allowed: fmt.Sprintf("%d to %d", least, most),
		parse: func(d *rawConfig, s setting) error {
			n, err := parseWithin(s.value, least, most)
			if err != nil {
				return err
			}
			return storeValue(d, field, T(n))
		},
		confText: func(d *rawConfig) string { return fmt.Sprint(*field(d)) },
	}
}

// oddNumber takes an odd whole number.
func oddNumber(least, most int64, field func(*rawConfig) *int) kind {
	k := wholeNumber(least, most, field)
	parse := k.parse
	k.allowed += ", odd"
	k.parse = func(d *rawConfig, s setting) error {
		err := parse(d, s)
		if err == nil && *field(d)%2 == 0 {
			err = fmt.Errorf("%d is even; write an odd number", *field(d))
		}
		return err
	}
	return k
}

// limitOrNone takes a number up to most. 0 means no limit. The field is -1 then, because 0 is its default.
func limitOrNone(most int64, field func(*rawConfig) *int) kind {
	return kind{
		allowed: fmt.Sprintf("0 to %d", most),
		parse: func(d *rawConfig, s setting) error {
			n, err := parseWithin(s.value, 0, most)
			if n == 0 {
				n = -1
			}
			if err != nil {
				return err
			}
			return storeValue(d, field, int(n))
		},
		confText: func(d *rawConfig) string { return strconv.Itoa(max(*field(d), 0)) },
	}
}

// fraction takes a number between least and 1, with decimals.
func fraction(least float64, field func(*rawConfig) *float64) kind {
	return kind{
		allowed: fmt.Sprintf("%v to 1, with decimals", least),
		parse: func(d *rawConfig, s setting) error {
			n, err := strconv.ParseFloat(s.value, 64)
			if err != nil || !(n >= least && n <= 1) { // this also rejects NaN
				return errAllowed
			}
			return storeValue(d, field, n)
		},
	}
}

// sizeUnits has the bytes of each unit.
var sizeUnits = map[byte]int64{'k': 1 << 10, 'm': 1 << 20, 'g': 1 << 30, 't': 1 << 40}

// parseSize reads a number of bytes, such as 4096, 512M or 2G. The units are powers of 1024.
func parseSize(value string) (int64, error) {
	digits := strings.TrimRight(value, "kKmMgGtT")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 {
		return 0, errAllowed
	}
	unit := strings.ToLower(value[len(digits):])
	if unit == "" {
		return n, nil
	}
	factor := sizeUnits[unit[0]]
	if len(unit) > 1 || n > maxSize/factor {
		return 0, errAllowed
	}
	return n * factor, nil
}

// byteSize takes a number of bytes between least and most, with a unit after it. 0 is allowed, too.
func byteSize[T int64 | uint64](least, most int64, field func(*rawConfig) *T) kind {
	return kind{
		allowed: fmt.Sprintf("0, or %s to %s; bytes, or with K, M, G or T after the number", sizeText(least), sizeText(most)),
		parse: func(d *rawConfig, s setting) error {
			n, err := parseSize(s.value)
			if err != nil || n != 0 && (n < least || n > most) {
				return errAllowed
			}
			return storeValue(d, field, T(n))
		},
	}
}

// sizeOrNone is byteSize for a field in which 0 is the default: without any bytes it is -1.
func sizeOrNone(least, most int64, field func(*rawConfig) *int64) kind {
	k := byteSize(least, most, field)
	parse := k.parse
	k.parse = func(d *rawConfig, s setting) error {
		err := parse(d, s)
		if to := field(d); err == nil && *to == 0 {
			*to = -1
		}
		return err
	}
	return k
}

// sizeText returns a number of bytes in the largest unit that divides it.
func sizeText(n int64) string {
	for _, unit := range "TGMK" {
		if factor := sizeUnits[byte(unit)|0x20]; n%factor == 0 {
			return strconv.FormatInt(n/factor, 10) + string(unit)
		}
	}
	return strconv.FormatInt(n, 10)
}

// memoryLimit takes a size, or a percentage of the memory.
func memoryLimit(field func(*rawConfig) *MemoryLimit) kind {
	bytes := func(l *MemoryLimit) kind {
		return byteSize(minMemoryLimit, maxSize, func(*rawConfig) *int64 { return &l.Bytes })
	}
	return kind{
		allowed: "1% to 90%, or " + bytes(nil).allowed,
		parse: func(d *rawConfig, s setting) (err error) {
			var l MemoryLimit
			digits, percent := strings.CutSuffix(s.value, "%")
			if !percent {
				err = bytes(&l).parse(d, s)
			} else if n, wrong := parseWithin(digits, 1, maxMemoryPercent); wrong == nil {
				l.Percent = int(n)
			} else {
				err = wrong
			}
			if err != nil {
				return err
			}
			return storeValue(d, field, l)
		},
	}
}

// millis takes a number of milliseconds between least and most.
func millis(least, most int64, field func(*rawConfig) *time.Duration) kind {
	k := wholeUnits(time.Millisecond, least, most, field)
	k.allowed += " (ms)"
	k.confText = func(d *rawConfig) string { return valueText(*field(d)) }
	return k
}

// wholeUnits takes a whole number of units of time between least and most.
func wholeUnits(unit time.Duration, least, most int64, field func(*rawConfig) *time.Duration) kind {
	return kind{
		allowed: fmt.Sprintf("%d to %d", least, most),
		parse: func(d *rawConfig, s setting) error {
			n, err := parseWithin(s.value, least, most)
			if err != nil {
				return err
			}
			return storeValue(d, field, time.Duration(n)*unit)
		},
	}
}

// slowTime takes the milliseconds from which on something is slow.
func slowTime(field func(*rawConfig) *time.Duration) kind { return millis(1, maxSlowTime, field) }

var failoverNames = map[string]time.Duration{
	"fast": 150 * time.Millisecond, "normal": DefaultHeartbeatTimeout,
	"wan": time.Second,
}

// failoverTime takes a name of failoverNames, or a number of milliseconds.
func failoverTime(field func(*rawConfig) *time.Duration) kind {
	number := millis(minFailover, maxFailover, field)
	return kind{
		allowed: "fast, normal, wan, or " + number.allowed,
		parse: func(d *rawConfig, s setting) error {
			if named, ok := failoverNames[strings.ToLower(s.value)]; ok {
				return storeValue(d, field, named)
			}
			return number.parse(d, s)
		},
		confText: number.confText,
	}
}

// sessionTimeout takes a number of milliseconds. -1 means the default, as in ZooKeeper. The field is 0 then.
func sessionTimeout(field func(*rawConfig) *time.Duration) kind {
	return kind{
		allowed: fmt.Sprintf("1 to %d (ms), or -1 for the default", maxMillis),
		parse: func(d *rawConfig, s setting) error {
			n, err := parseWithin(s.value, -1, maxMillis)
			if err != nil || n == 0 {
				return errAllowed
			}
			return storeValue(d, field, max(0, time.Duration(n)*time.Millisecond))
		},
		confText: func(d *rawConfig) string { return valueText(*field(d)) },
	}
}

// requestLimit takes the jute.maxbuffer that an operator of ZooKeeper has, decimal or, after 0x, hexadecimal. Above most it stores
// most, with a warning: a value that is far above every request in use, as people set it to be safe, keeps no member from starting.
func requestLimit(least, most int64, field func(*rawConfig) *int) kind {
	return kind{
		allowed: fmt.Sprintf("%d to %d (bytes); above %d it counts as %[3]d", least, maxCount, most),
		parse: func(d *rawConfig, s setting) error {
			digits, base := s.value, 10
			if len(digits) > 2 && strings.EqualFold(digits[:2], "0x") {
				digits, base = digits[2:], 16
			}
			n, err := strconv.ParseInt(digits, base, 64)
			if err != nil || n < least || n > maxCount {
				return errAllowed
			}
			if n > most {
				d.requestLimitAsked = n
				d.addWarning(s.where, "%s=%d counts as %d: %s", s.key, n, most, boundOfRequests)
			}
			return storeValue(d, field, int(min(n, most)))
		},
	}
}

// boundOfRequests is the reason why jute.maxbuffer has a ceiling.
const boundOfRequests = "a request is one entry of the log, which all members copy as a whole. A longer request is closed with its " +
	"connection. Replies, such as long lists of children, are not bounded by it"

// filePath takes the path of a file or directory.
func filePath(field func(*rawConfig) *string) kind {
	return kind{
		allowed: "a path",
		parse: func(d *rawConfig, s setting) error {
			if s.value == "" || strings.ContainsRune(s.value, 0) {
				return errAllowed
			}
			return storeValue(d, field, s.value)
		},
		confText: func(d *rawConfig) string { return *field(d) },
	}
}

// auditStdout is the value of audit.file that stands for standard output.
const auditStdout = "-"

// auditFile takes the path of the audit log.
func auditFile() kind {
	k := filePath(func(d *rawConfig) *string { return &d.config.Audit.File })
	k.allowed = "a path, or " + auditStdout
	return k
}

// hostName takes a name or an address.
func hostName(field func(*rawConfig) *string) kind {
	return kind{
		allowed: serverlist.HostSyntax,
		parse: func(d *rawConfig, s setting) error {
			h, err := serverlist.ParseHost(s.value)
			if err != nil {
				return err
			}
			return storeValue(d, field, h)
		},
	}
}

func commaList(field func(*rawConfig) *[]string) kind {
	return kind{
		allowed: "words with commas between them",
		parse: func(d *rawConfig, s setting) error {
			var list []string
			for word := range strings.SplitSeq(s.value, ",") {
				if word = strings.TrimSpace(word); word != "" {
					list = append(list, word)
				}
			}
			return storeValue(d, field, list)
		},
	}
}

// maxHostPatterns exceeds the members of any ensemble.
const maxHostPatterns = 1000

// hostPatterns takes hosts with commas between them. A host may begin with "*." for any one label.
func hostPatterns(field func(*rawConfig) *[]string) kind {
	return kind{
		allowed: fmt.Sprintf("1 to %d hosts with commas between them, where *. at the beginning of a name is any one label", maxHostPatterns),
		parse: func(d *rawConfig, s setting) error {
			var list []string
			for word := range strings.SplitSeq(s.value, ",") {
				domain, hasWildcard := strings.CutPrefix(strings.TrimSpace(word), "*.")
				host, err := serverlist.ParseHost(domain)
				switch {
				case err != nil:
					return err
				case hasWildcard:
					host = "*." + host
				}
				list = append(list, host)
			}
			if len(list) > maxHostPatterns {
				return fmt.Errorf("%d hosts are too many", len(list))
			}
			return storeValue(d, field, list)
		},
	}
}

func localReads(field func(*rawConfig) *admin.LocalReads) kind {
	return kind{
		allowed: "none, state or data",
		parse: func(d *rawConfig, s setting) error {
			reads, ok := map[string]admin.LocalReads{
				"none": admin.ReadNothing, "state": admin.ReadState,
				"data": admin.ReadData,
			}[strings.ToLower(s.value)]
			if !ok {
				return errAllowed
			}
			return storeValue(d, field, reads)
		},
	}
}

func superDigest(field func(*rawConfig) *string) kind {
	return kind{
		allowed: "<user>:<digest>",
		parse: func(d *rawConfig, s setting) error {
			if user, digest, _ := strings.Cut(s.value, ":"); user == "" || digest == "" {
				return errAllowed
			}
			return storeValue(d, field, s.value)
		},
	}
}

// digestAlg takes Java's name of a hash function.
func digestAlg(field func(*rawConfig) *digest.Algorithm) kind {
	return kind{
		allowed: digest.AlgorithmNames,
		parse: func(d *rawConfig, s setting) error {
			alg, err := digest.ParseAlgorithm(s.value)
			if err != nil {
				return err
			}
			return storeValue(d, field, alg)
		},
	}
}

func urlPath(field func(*rawConfig) *string) kind {
	return kind{
		allowed: "a path such as /commands",
		parse: func(d *rawConfig, s setting) error {
			if err := admin.CheckCommandURL(s.value); err != nil {
				return err
			}
			return storeValue(d, field, s.value)
		},
	}
}

// metricsProviders maps each of ZooKeeper's metrics providers to whether it opens a port.
var metricsProviders = map[string]bool{
	"org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider": true,
	"org.apache.zookeeper.metrics.impl.DefaultMetricsProvider":          false,
	"org.apache.zookeeper.metrics.impl.NullMetricsProvider":             false,
}

// metricsProvider takes a provider's class. It sets the field if the provider opens a port.
func metricsProvider(field func(*rawConfig) *bool) kind {
	return kind{
		allowed: "the class of ZooKeeper's PrometheusMetricsProvider, DefaultMetricsProvider or NullMetricsProvider",
		parse: func(d *rawConfig, s setting) error {
			opens, known := metricsProviders[s.value]
			if !known {
				return errAllowed
			}
			return storeValue(d, field, opens)
		},
	}
}

func logLevel(field func(*rawConfig) *slog.Level) kind {
	return kind{
		allowed: logs.AllowedLevels,
		parse: func(d *rawConfig, s setting) error {
			level, err := logs.ParseLevel(s.value)
			if err != nil {
				return err
			}
			return storeValue(d, field, level)
		},
	}
}

// storeValue sets the field of d, unless field is nil. It returns nil.
func storeValue[T any](d *rawConfig, field func(*rawConfig) *T, value T) error {
	if field != nil {
		*field(d) = value
	}
	return nil
}

// parseWithin reads a decimal number. It returns errAllowed if there is none or it is out of bounds.
func parseWithin(value string, least, most int64) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < least || n > most {
		return 0, errAllowed
	}
	return n, nil
}

// valueText returns a value as in zoo.cfg. A duration is in milliseconds.
func valueText(value any) string {
	if d, ok := value.(time.Duration); ok {
		return strconv.FormatInt(d.Milliseconds(), 10)
	}
	return fmt.Sprint(value)
}

// lowestFreeID returns the lowest number that no server line in list has and that every configuration may have, or 0 if
// there is none. Members with the same server lines get the same number.
func lowestFreeID(list []setting) uint32 {
	taken := map[uint32]bool{}
	for _, s := range list {
		if number, ok := strings.CutPrefix(s.key, "server."); ok {
			id, _ := serverlist.ParseID(number, serverlist.MaxID) // 0 if it is wrong
			taken[id] = true
		}
	}
	for id := uint32(1); id <= maxIDWithTTLNodes; id++ {
		if !taken[id] {
			return id
		}
	}
	return 0
}

// isZero reports whether text is the number 0, which ZooKeeper allows for a server.
func isZero(text string) bool {
	n, err := strconv.ParseUint(text, 10, 32)
	return err == nil && n == 0
}

// weight takes the weight of a server's vote: 1, or 0 for an observer.
func weight() kind {
	return kind{
		allowed: "1, or 0 for an observer",
		parse: func(d *rawConfig, s setting) error {
			id, err := serverlist.ParseID(strings.TrimPrefix(s.key, "weight."), serverlist.MaxID)
			if err != nil {
				return fmt.Errorf("the number after weight. must be %w", err)
			}
			switch s.value {
			case "0":
				d.withoutWeight = append(d.withoutWeight, id)
			case "1":
			default:
				return errAllowed
			}
			return nil
		},
	}
}

// tenantLimit takes a limit of tenants, whose name is in the key.
func tenantLimit() kind {
	return kind{
		allowed: "`[each] address`, `identity` or `subtree`, whom, and `requests=`, `bytes=`, `sessions=` or `watches=`",
		parse: func(d *rawConfig, s setting) error {
			r, err := tenant.ParseRule(strings.TrimPrefix(s.key, "limit."), s.value)
			if err != nil {
				return err
			}
			return d.config.Limits.Tenants.Change(func(present []tenant.Rule) ([]tenant.Rule, error) { return append(present, r), nil })
		},
	}
}

// serverLine takes the line of one member and adds it to the servers.
func serverLine() kind {
	return kind{
		allowed: "`host:quorumPort:electionPort[:participant or :observer][;[clientHost:]clientPort]`",
		parse: func(d *rawConfig, s setting) error {
			number := strings.TrimPrefix(s.key, "server.")
			id, err := serverlist.ParseID(number, serverlist.MaxID)
			switch {
			case err != nil && isZero(number) && d.freeID != 0:
				return fmt.Errorf("the number after server. must be %w; in place of ZooKeeper's 0, write server.%d in the "+
					"configuration of all members, and %d into the myid of that server", err, d.freeID, d.freeID)
			case err != nil:
				return fmt.Errorf("the number after server. must be %w", err)
			}
			server, err := serverlist.ParseServer(id, s.value)
			if err != nil {
				return err
			}
			list, ok := d.config.Servers.With(server)
			if !ok {
				return fmt.Errorf("duplicate server %d; remove one of the two", id)
			}
			d.config.Servers = list
			return nil
		},
	}
}
