import type { FaultRates } from "../world/faults.ts";
import type { Network } from "../services/network.ts";
import type { ObjectStore } from "../services/object-store.ts";
import type { Random } from "../world/random.ts";

/** Gives each fault a rate up to its own greatest one, or none: with all of them at once, nothing gets far. */
export function mixOf(random: Random, greatest: FaultRates): FaultRates {
  const rates = Object.entries(greatest).map(([kind, rate]) => [
    kind,
    random.chance(0.4) ? random.next() * random.next() * rate : 0,
  ]);
  return Object.fromEntries(rates) as FaultRates;
}

/** Faults of requests, responses and storage, which every profile has. */
export const usualFaults: FaultRates = {
  "request lost": 0.3,
  "request stalls": 0.02,
  "request comes twice": 0.3,
  "response lost": 0.3,
  "response cut": 0.8,
  "response ends early": 0.4,
  "bit flips": 0.2,
  "storage refuses": 0.2,
  "storage reply lost": 0.2,
  "storage body breaks": 0.3,
  "storage body short": 0.3,
};

/** Faults of the client's disk that cost no bytes. */
export const diskFaults: FaultRates = { "short write": 0.4 };

/** Faults of the way to Redis. */
export const redisFaults: FaultRates = {
  "redis request lost": 0.1,
  "redis reply lost": 0.1,
  "slow redis": 0.1,
};

/** Greatest time between the clocks of two servers, in milliseconds: the one that the product allows for. */
export const clockSkewMs = 5_000;

/** Draws how far the clock of each server is ahead. */
export function drawSkews(random: Random, servers: number): number[] {
  return Array.from({ length: servers }, () => random.int(-clockSkewMs / 2, clockSkewMs / 2));
}

/** Draws how slow the network and the storage are. */
export function drawSlowness(random: Random, network: Network, storage: ObjectStore): void {
  network.slownessMs = random.pick([2, 20, 200]);
  storage.slownessMs = random.pick([2, 20, 200]);
}
