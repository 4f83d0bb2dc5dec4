// Package lean decodes JSON and protobuf without the fields that no rule reads. Nine of ten bytes in a list of pods
// or pools are managedFields, volumes, environments and probes. Live lists and snapshots are read with it, which
// saves a third of the time and two thirds of the memory of a check.
//
// List (list.go) splits the answer to a LIST into objects. Fields (fields.go) reduces an object to some fields before a
// decoder reads it. Reader (json.go) reads JSON member by member, Metadata (metadata.go) what all objects have.
package lean
