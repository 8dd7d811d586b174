import type { Channel, Settable } from "../channel";
import type { CompareTraits } from "../wire";

export type { CompareTraits };

export type CompareChannel = Channel<CompareTraits, Settable & keyof CompareTraits>;
