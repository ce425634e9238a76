#!/usr/bin/env node
import { runCommand } from "@sluice/cli/internal/run";

await runCommand(process.argv.slice(2));
