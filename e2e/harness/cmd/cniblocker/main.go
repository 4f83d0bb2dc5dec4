// Command cniblocker is a CNI plugin for the chain of a network. It changes nothing, but its ADD waits as long as the
// file named in its configuration exists. Meanwhile there is a file <file>.<container id>.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

func main() {
	if err := run(); err != nil {
		json.NewEncoder(os.Stdout).Encode(map[string]any{"cniVersion": "1.0.0", "code": 100, "msg": err.Error()})
		os.Exit(1)
	}
}

func run() error {
	if os.Getenv("CNI_COMMAND") == "VERSION" {
		return json.NewEncoder(os.Stdout).Encode(map[string]any{
			"cniVersion": "1.0.0", "supportedVersions": []string{"0.3.1", "0.4.0", "1.0.0", "1.1.0"},
		})
	}
	var config struct {
		CNIVersion string          `json:"cniVersion"`
		File       string          `json:"file"`
		PrevResult json.RawMessage `json:"prevResult"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&config); err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	if os.Getenv("CNI_COMMAND") != "ADD" {
		return nil
	}
	if err := wait(config.File, os.Getenv("CNI_CONTAINERID")); err != nil {
		return err
	}
	if len(config.PrevResult) == 0 {
		return json.NewEncoder(os.Stdout).Encode(map[string]any{"cniVersion": config.CNIVersion})
	}
	_, err := os.Stdout.Write(config.PrevResult)
	return err
}

func wait(file, id string) error {
	if _, err := os.Stat(file); err != nil {
		return nil
	}
	here := file + "." + id
	if err := os.WriteFile(here, nil, 0o600); err != nil {
		return err
	}
	defer os.Remove(here)
	for {
		if _, err := os.Stat(file); err != nil {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
}
