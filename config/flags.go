package config

import (
	"errors"
	"flag"
	"strings"
)

// Flags are the settings of a command line. They win over every other source. The zero value has no flags.
type Flags struct {
	settings    []setting
	clientAddr  string
	myID        string
	newEnsemble bool
}

// Register adds the flags of all keys and the other flags to fs. Parsing fs then fills in f.
func (f *Flags) Register(fs *flag.FlagSet) {
	for _, k := range keys {
		if k.flag == (flagOption{}) {
			continue
		}
		fs.Func(k.flag.name, k.flag.usage, func(value string) error {
			f.settings = append(f.settings, setting{k.name, value, "--" + k.flag.name})
			return nil
		})
	}
	fs.StringVar(&f.clientAddr, "client", "", "`host:port` where clients connect (clientPortAddress, clientPort)")
	fs.StringVar(&f.myID, "myid", "", "`number` of this member, instead of that in dataDir/myid")
	fs.BoolVar(&f.newEnsemble, "new-ensemble", false, "let a majority of members without data begin a new ensemble")
	fs.Func("set", "`key=value` as in zoo.cfg; may be repeated", func(text string) error {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return errors.New("must be key=value")
		}
		f.settings = append(f.settings, setting{strings.TrimSpace(key), strings.TrimSpace(value), "--set"})
		return nil
	})
}
