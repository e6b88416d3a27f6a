// Campaigns: the list, or one of them.

import { showCampaignList } from "./campaign-list.js";
import { showCampaign } from "./campaign-page.js";

export async function show(root, { params, signal }) {
  await (params.id === null ? showCampaignList(root, signal) : showCampaign(root, params.id, signal));
}
