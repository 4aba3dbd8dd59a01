package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rollcall/cli"
	"rollcall/internal/durable"
	"rollcall/internal/keystore/authority"
	"rollcall/internal/secretfile"
)

const (
	oneDay = 24 * time.Hour
	// Certificates are valid for a year by default, so that they are reviewed, and authorities for ten years.
	defaultHostDays      = 365
	defaultAuthorityDays = 3650
	// maxDays limits validity to a century.
	maxDays = 36500
)

func newCerts(w cli.IOStreams) *cobra.Command {
	var c certMaker
	cmd := &cobra.Command{
		Use: "certs [flags] HOST[,NAME...]...", Short: "make an authority, and a certificate for each host",
		GroupID: cli.RunGroup, Args: cli.RangeArgs(1, maxCertHosts, "hosts"),
		Long: "Makes the files that TLS needs, for those who have no authority of their own. In the directory --out it " +
			"writes ca.pem, which everybody may have, ca.key, which signs " +
			"certificates and is best kept off the members' machines, and HOST.pem for each host: a private key with its " +
			"certificate, for members (ssl.quorum.*), for the port for clients (ssl.*), and for clients, whose identity is " +
			"CN=HOST. Further names and addresses of a host follow after commas. If there " +
			"is an authority in the directory, it signs certificates for further hosts. No file is overwritten. The " +
			"directory must belong to you, and no other user may write in it or replace it.",
		RunE: cli.PrefixErrors(func(_ *cobra.Command, args []string) error {
			files, err := c.newCertFiles(args, time.Now())
			if err == nil {
				err = writeNewFiles(files)
			}
			if err != nil {
				return err
			}
			for _, f := range files {
				if _, err := fmt.Fprintln(w.Out, f.path); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&c.directory, "out", "certs", "`directory` for the files; it is made if it is not there")
	cmd.Flags().IntVar(&c.hostDays, "days", defaultHostDays, "for how many days the hosts' certificates are valid")
	cmd.Flags().IntVar(&c.authorityDays, "ca-days", defaultAuthorityDays, "for how many days a new authority is valid")
	return cmd
}

// maxCertHosts exceeds the members of any ensemble.
const maxCertHosts = 1000

// certMaker holds the settings of the command.
type certMaker struct {
	directory               string
	hostDays, authorityDays int
}

// newFile is a file to write.
type newFile struct {
	path string
	text []byte
	mode fs.FileMode
}

// newCertFiles returns the new files for hosts. A host is its names, separated by commas. The directory must be
// safe from other users: a user who can replace the authority can issue any certificate.
func (c *certMaker) newCertFiles(hosts []string, now time.Time) ([]newFile, error) {
	for flag, days := range map[string]int{"--days": c.hostDays, "--ca-days": c.authorityDays} {
		if days < 1 || days > maxDays {
			return nil, cli.UsageError.Errorf("%s %d must be 1 to %d", flag, days, maxDays)
		}
	}
	if _, err := secretfile.ResolveTrustedDirectory(c.directory); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	ca, files, err := c.loadOrMakeAuthority(now)
	if err != nil {
		return nil, err
	}
	for _, host := range hosts {
		names := strings.Split(host, ",")
		text, err := ca.Issue(names, now, time.Duration(c.hostDays)*oneDay)
		if err == nil && strings.HasPrefix(names[0], "*") {
			err = errors.New("the first name gives the file its name and must be a whole one; put it first")
		}
		if err != nil {
			return nil, cli.UsageError.Errorf("%s: %w", host, err)
		}
		files = append(files, newFile{filepath.Join(c.directory, names[0]+".pem"), text, 0o600})
	}
	return files, nil
}

// loadOrMakeAuthority returns the directory's authority, or a new one with its files to write.
func (c *certMaker) loadOrMakeAuthority(now time.Time) (*authority.Authority, []newFile, error) {
	certPath, keyPath := filepath.Join(c.directory, "ca.pem"), filepath.Join(c.directory, "ca.key")
	cert, errCert := os.ReadFile(certPath)
	key, errKey := os.ReadFile(keyPath)
	switch {
	case errCert == nil && errKey == nil:
		ca, err := authority.ParsePEM(cert, key)
		if err != nil {
			return nil, nil, fmt.Errorf("%s and %s: %w", certPath, keyPath, err)
		}
		return ca, nil, nil
	case !errors.Is(errCert, fs.ErrNotExist) || !errors.Is(errKey, fs.ErrNotExist):
		return nil, nil, fmt.Errorf("an authority is a certificate and its key, and one of the two cannot be read; put it "+
			"back, or choose another --out: %w", errors.Join(errCert, errKey))
	}
	ca, err := authority.New("Rollcall", now, time.Duration(c.authorityDays)*oneDay)
	if err != nil {
		return nil, nil, err
	}
	cert, key, err = ca.PEMFiles()
	return ca, []newFile{{certPath, cert, 0o644}, {keyPath, key, 0o600}}, err
}

// writeNewFiles writes files, unless one of them exists.
func writeNewFiles(files []newFile) error {
	for i, f := range files {
		if _, err := os.Lstat(f.path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s exists, and nothing is overwritten; remove it first if its key is not needed any more", f.path)
		}
		for _, other := range files[:i] {
			if other.path == f.path {
				return cli.UsageError.Errorf("%s would be written twice; name each host once", f.path)
			}
		}
	}
	for _, f := range files {
		dir, err := secretfile.MakeTrustedDirectory(filepath.Dir(f.path))
		if err != nil {
			return err
		}
		if err := writeNewFile(newFile{filepath.Join(dir, filepath.Base(f.path)), f.text, f.mode}); err != nil {
			return err
		}
	}
	return nil
}

// writeNewFile creates a file durably.
func writeNewFile(f newFile) error {
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.mode)
	if err != nil {
		return err
	}
	_, err = file.Write(f.text)
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return durable.SyncDirectory(filepath.Dir(f.path))
}
