"""Policies that the tests of commands share."""

DING = (
    "SelectHave(P) :- Have(P), Field(P,'App',_,'ding'), Field(P,'Group',_,'u').\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'ding'), "
    "AdvertisedField(P,S,'Group',_,'u').\n"
)
DING_IDENTIFIER = "R.no0zpA989ba4DQLVF~dswkCbzd5aK1Dn373LKs5I1gC"
SEALED = (
    "SelectHave(P) :- Have(P), Field(P,'Signed-By',_,_).\n"
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Signed-By',_,_).\n"
)
HIDE_ALL = "Queryable(P,O) :- OwnSelected(P), Viewer(O), Field(P,'X-Shown',_,'yes').\n"
TWO_MISTAKES = "SelectHave(P) :- Have(P), Feild(P,'x').\nSelectHave(Q) :- Have(P).\n"
PEER = "V.KUEKyigQ92YohOZm6qahnSiSR8rO~qzWG3lhHM8Wmnt.H3"
