package ledger

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"harness/pkg/durable"
)

// keysFile keeps the ring with the private half of its last key: one file, so
// that no crash can leave one without the other. It is 0600 (CON-4).
type keysFile struct {
	Schema string `json:"schema"`
	Ring   Ring   `json:"ring"`
	Seed   []byte `json:"seed"` // of the last key, RFC 8032
}

// brokenKeys is what to do about a keysFile that cannot be used.
const brokenKeys = "restore it from a copy; with it moved away the next contract begins with another key, but sessions that exist can then be neither verified, exported nor resumed on this machine"

const (
	keysSchema = "harness/ledger-keys/v1"
	keysName   = "keys.json"
)

// signer is the key in use, with the ring that it is the last of.
type signer struct {
	ring Ring
	key  ed25519.PrivateKey
}

func (s *signer) fingerprint() string { return s.ring[len(s.ring)-1].Fingerprint }

// signer returns the key in use, made now where there is none yet.
func (s *Store) signer() (*signer, error) {
	var found *signer
	err := s.withKeys(func() error {
		var err error
		if found, err = s.readKeys(); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		found, err = s.turn(&signer{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open the ledger's key: %w", err)
	}
	return found, nil
}

// Rotate replaces the key in use. What the old one signed stays valid, and the
// old one vouches for the new.
func (s *Store) Rotate() (Key, error) {
	var made Key
	err := s.withKeys(func() error {
		old, err := s.readKeys()
		if errors.Is(err, fs.ErrNotExist) {
			old, err = &signer{}, nil
		}
		if err != nil {
			return err
		}
		next, err := s.turn(old)
		if err == nil {
			made = next.ring[len(next.ring)-1]
		}
		return err
	})
	if err != nil {
		return Key{}, fmt.Errorf("rotate the ledger's key: %w", err)
	}
	return made, nil
}

// Ring returns every key there ever was; none where the ledger was never used.
func (s *Store) Ring() (Ring, error) {
	found, err := s.readKeys()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the ledger's keys: %w", err)
	}
	return found.ring, nil
}

// turn makes a key that follows old, and keeps it.
func (s *Store) turn(old *signer) (*signer, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	k, err := certify(old.ring, old.key, private, s.now().UTC().Format(time.RFC3339Nano))
	if err != nil {
		return nil, err
	}
	next := &signer{append(old.ring, k), private}
	data, err := json.MarshalIndent(keysFile{keysSchema, next.ring, private.Seed()}, "", "  ")
	if err != nil {
		return nil, err
	}
	return next, durable.Write(filepath.Join(s.dir, keysName), append(data, '\n'))
}

// readKeys reads and checks the file. A torn or foreign one is an error: a new
// key in its place would be one that nobody vouches for.
func (s *Store) readKeys() (*signer, error) {
	path := filepath.Join(s.dir, keysName)
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s is open to others, or no file; it has to be a regular file of mode 0600", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var f keysFile
	if err := json.Unmarshal(data, &f); err != nil || f.Schema != keysSchema || len(f.Seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("%s is torn or foreign; %s", path, brokenKeys)
	}
	if _, err := f.Ring.keys(); err != nil {
		return nil, fmt.Errorf("%s: %w; %s", path, err, brokenKeys)
	}
	found := &signer{f.Ring, ed25519.NewKeyFromSeed(f.Seed)}
	if Fingerprint(found.key.Public().(ed25519.PublicKey)) != found.fingerprint() {
		return nil, fmt.Errorf("%s: the private key is not that of the last public one; %s", path, brokenKeys)
	}
	return found, nil
}

// withKeys does one thing at a time to the keys, over all processes.
func (s *Store) withKeys(do func() error) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	lock := flock.New(filepath.Join(s.dir, "keys.lock"), flock.SetPermissions(0o600))
	if err := lock.Lock(); err != nil {
		return err
	}
	return errors.Join(do(), lock.Close())
}
