package ippool

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/cniconf"
	"github.com/ip-reconcile/ip-reconcile/internal/lean"
)

// The fields that are read of a CNI config, of its plugins and of their ipam sections.
var (
	configFields = append([]string{"name", "type", "plugins", "ipam"}, segmentNames...)
	ipamFields   = []string{"type", "range", "range_start", "range_end", "exclude", "ipRanges", "network_name",
		"node_slice_size", "enable_overlapping_ranges"}
)

// ReducedConfig returns the config of a NetworkAttachmentDefinition with the fields that are read of it: a NAD with the
// one and a NAD with the other say the same. Of a text that is no JSON it returns the first letter, which is no JSON.
func ReducedConfig(config string) string {
	if strings.TrimSpace(config) == "" {
		return config
	}
	if !json.Valid([]byte(config)) {
		_, size := utf8.DecodeRuneInString(config)
		return config[:size]
	}
	if reduced := string(reducedJSON([]byte(config), configFields)); saysTheSame(config, reduced) {
		return reduced
	}
	return config // too long to be read, for example
}

func saysTheSame(config, reduced string) bool {
	networks, err := readConfig(config)
	again, errAgain := readConfig(reduced)
	return reflect.DeepEqual(networks, again) && (err == nil) == (errAgain == nil) &&
		(err == nil || err.Error() == errAgain.Error())
}

// reducedJSON reduces the objects in a value. Fields keep their order, since a field may be there twice. Where one that
// is not read mentions whereabouts, the mention stays.
func reducedJSON(text []byte, fields []string) []byte {
	r := lean.New(text)
	var all [][]byte
	switch r.Kind() {
	case '[':
		r.Array(func() { all = append(all, reducedJSON(r.Raw(), fields)) })
		return slices.Concat([]byte("["), bytes.Join(all, []byte(",")), []byte("]"))
	case '{':
		r.Object(func(name []byte) {
			name, value := bytes.Clone(name), r.Raw()
			switch readAs(string(name), fields) {
			case "plugins":
				value = reducedJSON(value, configFields)
			case "ipam", "ipRanges":
				value = reducedJSON(value, ipamFields)
			case "":
				mentions := cniconf.Mentions(value, whereabouts)
				if mentions+cniconf.Mentions(name, whereabouts) == 0 {
					return
				}
				value = []byte(`"` + strings.Repeat(whereabouts+" ", mentions) + `"`)
			}
			key, _ := json.Marshal(string(name))
			all = append(all, slices.Concat(key, []byte(":"), value))
		})
		return slices.Concat([]byte("{"), bytes.Join(all, []byte(",")), []byte("}"))
	case '"':
		return []byte(`""`)
	}
	return r.Raw()
}

// readAs returns the name of the field that encoding/json takes a name for, "" for none.
func readAs(name string, fields []string) string {
	for _, f := range fields {
		if strings.EqualFold(f, name) {
			return f
		}
	}
	return ""
}

// The fields that are read of an entry of a pool and of the spec of a reservation.
var (
	entryFields       = []string{"id", "podref", "ifname", ClaimField}
	reservationFields = []string{"podref", "ifname", "containerid", ClaimField}
)

// Names gives other names to what an allocation or a reservation names.
type Names struct {
	PodRef func(text string) string
	Claim  func(name types.NamespacedName) types.NamespacedName
}

// ReducedPoolSpec returns the spec of an IPPool with what is read of it. A field that is not read, or cannot be, has an
// empty value of its type: that it is there makes an entry unreadable.
func ReducedPoolSpec(spec any, names Names) any {
	all, isObject := spec.(map[string]any)
	if !isObject {
		return emptied(spec)
	}
	reduced := map[string]any{}
	for _, name := range []string{"range", "allocations"} {
		switch value := all[name].(type) {
		case nil:
		case map[string]any:
			entries := map[string]any{}
			for key, entry := range value {
				entries[key] = names.reduced(entry, entryFields)
			}
			reduced[name] = entries
		case string:
			if reduced[name] = value; name != "range" {
				reduced[name] = emptied(value)
			}
		default:
			reduced[name] = emptied(value)
		}
	}
	return reduced
}

// ReducedReservationSpec is ReducedPoolSpec for a reservation.
func ReducedReservationSpec(spec any, names Names) any { return names.reduced(spec, reservationFields) }

func (n *Names) reduced(entry any, known []string) any {
	fields, isObject := entry.(map[string]any)
	if !isObject {
		return emptied(entry)
	}
	reduced := map[string]any{}
	for name, value := range fields {
		text, isText := value.(string)
		switch {
		case !isText || !slices.Contains(known, name):
			reduced[name] = emptied(value)
		case name == "podref" && n.PodRef != nil:
			reduced[name] = n.PodRef(text)
		case name == ClaimField && n.Claim != nil:
			reduced[name] = ""
			if claim, _, _ := parseClaimRef(text); claim != nil {
				reduced[name] = n.Claim(*claim).String()
			}
		default:
			reduced[name] = text
		}
	}
	return reduced
}

// emptied returns an empty value of the same type, and a number or a truth value as it is.
func emptied(value any) any {
	switch value.(type) {
	case string:
		return ""
	case []any:
		return []any{}
	case map[string]any:
		return map[string]any{}
	}
	return value
}
