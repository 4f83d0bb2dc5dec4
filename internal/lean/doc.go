// Package lean reads JSON and protobuf without building what no rule reads: of a page of pods or pools nine bytes in
// ten are managedFields, volumes, environments and probes. The lists of a live cluster and the files of a snapshot
// are read by it. It is why a check of a large cluster takes 1.5 s instead of 2.4, and a third of the memory.
//
// List (list.go) reads the answer to a LIST item by item, and AppendWithoutManagedFields cuts managedFields out of an object.
// Fields (fields.go) keeps some fields of an object, before a decoder builds values of it. Reader (json.go) reads JSON
// member by member.
package lean
