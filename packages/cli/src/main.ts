#!/usr/bin/env node
import { run } from "./lib/run.ts";

await run(process.argv.slice(2));
