// Campaigns: all of them, or one as it runs.

import { showList } from "./list.js";
import { showOne } from "./one.js";

export async function show(root, { params, signal }) {
  await (params.id === null ? showList(root, signal) : showOne(root, params.id, signal));
}
