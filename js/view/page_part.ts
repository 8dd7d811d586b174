import type { Channel, Message, Traits } from "../channel";
import type { DetailsModel, SavedGraphModel } from "../wire";

/** A page without a kernel, as a part sees it. */
export interface PageView {
  readonly saved: SavedGraphModel;
  readonly channel: Channel & { change<K extends keyof Traits>(trait: K, value: Traits[K]): void };
  /** Show the details of the selected node anew. */
  answer(): void;
}

/** The part of a feature in a page. */
export interface PagePart {
  /** Take a message of the reader; false if it was not for this part. */
  received?(message: Message): boolean;
  /** Change the details of a node. */
  details?(details: DetailsModel): DetailsModel;
  /** The page is drawn. */
  drawn?(): void;
}

export const PAGE_PARTS: ((page: PageView) => PagePart)[] = [];
