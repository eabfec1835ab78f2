package upstream

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"harness/pkg/config"
	"harness/pkg/durable"
	"harness/pkg/wire"
)

// manifestSchema is what a kept list says it is; another value is a foreign
// file.
const manifestSchema = "harness/manifest/v1"

// definitionDigest identifies the definition that a list was learnt from. The
// values of its environment are no part of it (CFG-5): a digest of a short
// secret could be guessed.
func definitionDigest(l config.Launch) string {
	text, err := json.Marshal([]any{
		l.Cmd, l.Args, l.EnvFile, slices.Sorted(maps.Keys(l.Env)), l.Workdir, l.Isolation,
	})
	if err != nil {
		// Strings and lists of strings always marshal.
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// manifest returns the kept form of o. What it lists is in it as they were sent:
// encoding/json would compact and escape them.
func manifest(l config.Launch, o *Offer) []byte {
	dst := append([]byte(nil), `{"schema":"`+manifestSchema+`","key":`...)
	dst = wire.AppendQuoted(dst, l.Key)
	dst = append(dst, `,"definition":"`+definitionDigest(l)...)
	dst = append(dst, `","sha256":"`...)
	dst = hex.AppendEncode(dst, o.Digest[:])
	dst = append(dst, `","instructions":`...)
	dst = wire.AppendQuoted(dst, o.Instructions)
	// Bools always marshal.
	can, _ := json.Marshal(o.Can)
	dst = append(append(dst, `,"can":`...), can...)
	for _, l := range lists() {
		dst = append(append(dst, `,"`+l.member...), `":[`...)
		for i, item := range *l.in(o) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, '\n')
			dst = append(dst, item.Raw...)
		}
		dst = append(dst, "\n]"...)
	}
	return append(dst, "}\n"...)
}

// parseManifest returns the offer kept in data if it is the one of l, or nil
// if it is another definition's. An error means that the file is torn or
// foreign.
func parseManifest(data []byte, l config.Launch) (*Offer, error) {
	var m struct {
		Schema, Key, Definition, SHA256, Instructions string
		Can                                           Can
	}
	var kept map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(data, &m), json.Unmarshal(data, &kept)); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if m.Schema != manifestSchema || m.Key != l.Key {
		return nil, errors.New("manifest: not a kept list of this upstream")
	}
	unsealed := Offer{Instructions: m.Instructions, Can: m.Can}
	for _, l := range lists() {
		var items []json.RawMessage
		if raw, there := kept[l.member]; there {
			if err := json.Unmarshal(raw, &items); err != nil {
				return nil, fmt.Errorf("manifest: %s: %w", l.member, err)
			}
		}
		c := collected{list: l}
		c.add(items)
		*l.in(&unsealed) = c.items
	}
	o := unsealed.sealed()
	if hex.EncodeToString(o.Digest[:]) != m.SHA256 {
		return nil, errors.New("manifest: content does not match its digest")
	}
	if m.Definition != definitionDigest(l) {
		return nil, nil
	}
	o.Kept = true
	return o, nil
}

// manifests is the directory of kept lists (MCP-3a), one file for each key.
type manifests struct{ dir string }

func (s manifests) path(key string) string {
	return filepath.Join(s.dir, fileName(key)+".json")
}

// fileName returns name as one element of a path: a project's upstream has a
// slash in its key.
func fileName(name string) string { return url.PathEscape(name) }

// load returns the kept offer of l, or nil. A torn or foreign file is set
// aside under the name .bad, and the error says so (FIL-3).
func (s manifests) load(l config.Launch) (*Offer, error) {
	path := s.path(l.Key)
	data, err := durable.Read(path, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil && !errors.Is(err, durable.ErrNotRegular) {
		return nil, fmt.Errorf("read kept list: %w", err)
	}
	var o *Offer
	if err == nil {
		o, err = parseManifest(data, l)
	}
	if err != nil {
		aside, asideErr := durable.SetAside(path)
		if asideErr != nil {
			return nil, errors.Join(err, asideErr)
		}
		return nil, fmt.Errorf("%w; set aside as %s", err, aside)
	}
	return o, nil
}

// store keeps o, unless the file already says the same.
func (s manifests) store(l config.Launch, o *Offer) error {
	path := s.path(l.Key)
	data := manifest(l, o)
	if old, err := durable.Read(path, 0); err == nil && bytes.Equal(old, data) {
		return nil
	}
	if err := durable.Write(path, data); err != nil {
		return fmt.Errorf("keep list: %w", err)
	}
	return nil
}
